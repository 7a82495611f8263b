"""Every legal transition of connections, sessions and links.

A pair (state, step) that is not in a table is illegal: a protocol error if the peer
took the step, misuse if we did. Steps RECEIVE_* are the peer's, SEND_* ours. The states
of connections are those of AMQP 1.0 part 2, 2.4.6, of sessions those of 2.5.5. The six
states of a link combine what each side has sent.
"""

from enum import Enum, auto
from typing import Final


class ConnectionState(Enum):
    START = auto()
    HDR_RCVD = auto()
    HDR_SENT = auto()
    HDR_EXCH = auto()
    OPEN_PIPE = auto()
    OC_PIPE = auto()
    OPEN_RCVD = auto()
    OPEN_SENT = auto()
    CLOSE_PIPE = auto()
    OPENED = auto()
    CLOSE_RCVD = auto()
    CLOSE_SENT = auto()
    END = auto()


class ConnectionStep(Enum):
    RECEIVE_HEADER = auto()
    SEND_HEADER = auto()
    RECEIVE_OPEN = auto()
    SEND_OPEN = auto()
    RECEIVE_CLOSE = auto()
    SEND_CLOSE = auto()


class SessionState(Enum):
    UNMAPPED = auto()
    BEGIN_SENT = auto()
    BEGIN_RCVD = auto()
    MAPPED = auto()
    END_PIPE = auto()
    END_SENT = auto()
    END_RCVD = auto()
    ENDED = auto()


class SessionStep(Enum):
    RECEIVE_BEGIN = auto()
    SEND_BEGIN = auto()
    RECEIVE_END = auto()
    SEND_END = auto()


class LinkState(Enum):
    UNATTACHED = auto()
    ATTACH_SENT = auto()
    ATTACH_RCVD = auto()
    ATTACHED = auto()
    DETACH_PIPE = auto()
    DETACH_SENT = auto()
    DETACH_RCVD = auto()
    DETACHED = auto()


class LinkStep(Enum):
    RECEIVE_ATTACH = auto()
    SEND_ATTACH = auto()
    RECEIVE_DETACH = auto()
    SEND_DETACH = auto()


CONNECTION: Final = {
    (ConnectionState.START, ConnectionStep.RECEIVE_HEADER): ConnectionState.HDR_RCVD,
    (ConnectionState.START, ConnectionStep.SEND_HEADER): ConnectionState.HDR_SENT,
    (ConnectionState.HDR_RCVD, ConnectionStep.SEND_HEADER): ConnectionState.HDR_EXCH,
    (ConnectionState.HDR_SENT, ConnectionStep.RECEIVE_HEADER): ConnectionState.HDR_EXCH,
    (ConnectionState.HDR_SENT, ConnectionStep.SEND_OPEN): ConnectionState.OPEN_PIPE,
    (ConnectionState.HDR_EXCH, ConnectionStep.RECEIVE_OPEN): ConnectionState.OPEN_RCVD,
    (ConnectionState.HDR_EXCH, ConnectionStep.SEND_OPEN): ConnectionState.OPEN_SENT,
    (ConnectionState.OPEN_PIPE, ConnectionStep.RECEIVE_HEADER): (
        ConnectionState.OPEN_SENT
    ),
    (ConnectionState.OPEN_PIPE, ConnectionStep.SEND_CLOSE): ConnectionState.OC_PIPE,
    (ConnectionState.OC_PIPE, ConnectionStep.RECEIVE_HEADER): (
        ConnectionState.CLOSE_PIPE
    ),
    (ConnectionState.OPEN_RCVD, ConnectionStep.SEND_OPEN): ConnectionState.OPENED,
    (ConnectionState.OPEN_SENT, ConnectionStep.RECEIVE_OPEN): ConnectionState.OPENED,
    (ConnectionState.OPEN_SENT, ConnectionStep.SEND_CLOSE): ConnectionState.CLOSE_PIPE,
    (ConnectionState.CLOSE_PIPE, ConnectionStep.RECEIVE_OPEN): (
        ConnectionState.CLOSE_SENT
    ),
    (ConnectionState.OPENED, ConnectionStep.RECEIVE_CLOSE): ConnectionState.CLOSE_RCVD,
    (ConnectionState.OPENED, ConnectionStep.SEND_CLOSE): ConnectionState.CLOSE_SENT,
    (ConnectionState.CLOSE_RCVD, ConnectionStep.SEND_CLOSE): ConnectionState.END,
    (ConnectionState.CLOSE_SENT, ConnectionStep.RECEIVE_CLOSE): ConnectionState.END,
}

SESSION: Final = {
    (SessionState.UNMAPPED, SessionStep.RECEIVE_BEGIN): SessionState.BEGIN_RCVD,
    (SessionState.UNMAPPED, SessionStep.SEND_BEGIN): SessionState.BEGIN_SENT,
    (SessionState.BEGIN_RCVD, SessionStep.SEND_BEGIN): SessionState.MAPPED,
    (SessionState.BEGIN_SENT, SessionStep.RECEIVE_BEGIN): SessionState.MAPPED,
    (SessionState.BEGIN_SENT, SessionStep.SEND_END): SessionState.END_PIPE,
    (SessionState.END_PIPE, SessionStep.RECEIVE_BEGIN): SessionState.END_SENT,
    (SessionState.MAPPED, SessionStep.RECEIVE_END): SessionState.END_RCVD,
    (SessionState.MAPPED, SessionStep.SEND_END): SessionState.END_SENT,
    (SessionState.END_RCVD, SessionStep.SEND_END): SessionState.ENDED,
    (SessionState.END_SENT, SessionStep.RECEIVE_END): SessionState.ENDED,
}

LINK: Final = {
    (LinkState.UNATTACHED, LinkStep.RECEIVE_ATTACH): LinkState.ATTACH_RCVD,
    (LinkState.UNATTACHED, LinkStep.SEND_ATTACH): LinkState.ATTACH_SENT,
    (LinkState.ATTACH_RCVD, LinkStep.SEND_ATTACH): LinkState.ATTACHED,
    (LinkState.ATTACH_SENT, LinkStep.RECEIVE_ATTACH): LinkState.ATTACHED,
    (LinkState.ATTACH_SENT, LinkStep.SEND_DETACH): LinkState.DETACH_PIPE,
    (LinkState.DETACH_PIPE, LinkStep.RECEIVE_ATTACH): LinkState.DETACH_SENT,
    (LinkState.ATTACHED, LinkStep.RECEIVE_DETACH): LinkState.DETACH_RCVD,
    (LinkState.ATTACHED, LinkStep.SEND_DETACH): LinkState.DETACH_SENT,
    (LinkState.DETACH_RCVD, LinkStep.SEND_DETACH): LinkState.DETACHED,
    (LinkState.DETACH_SENT, LinkStep.RECEIVE_DETACH): LinkState.DETACHED,
}
