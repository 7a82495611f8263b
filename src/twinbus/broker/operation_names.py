"""What operations of the log are called, and what is said of each kind."""

from typing import Final

from twinbus.broker import operation_log as log

NAMES: Final = {
    log.SEND: "send",
    log.SCHEDULE: "schedule",
    log.ACTIVATE: "activate",
    log.LOCK: "lock",
    log.RECEIVE_AND_DELETE: "receive_and_delete",
    log.COMPLETE: "complete",
    log.ABANDON: "abandon",
    log.DEFER: "defer",
    log.DEAD_LETTER: "dead_letter",
    log.RELEASE: "release",
    log.LOCK_EXPIRED: "lock_expired",
    log.EXPIRE: "expire",
    log.CANCEL: "cancel",
    log.DELETE: "delete",
    log.RENEW: "renew",
    log.PEEK: "peek",
    log.REFUSE: "refuse",
    log.DUPLICATE: "duplicate",
    log.FORWARD: "forward",
    log.PING: "ping",
    log.REVOKE: "revoke",
    log.ARRIVE: "arrive",
    log.RECEIVE_EMPTY: "receive_empty",
    log.ADMINISTRATION: "administration",
}

# A client waits for their commit.
AWAITED: Final = frozenset(
    {
        *(log.SEND, log.SCHEDULE, log.DUPLICATE, log.PING, log.CANCEL),
        *(log.COMPLETE, log.ABANDON, log.DEFER, log.DEAD_LETTER, log.RELEASE),
        *(log.RECEIVE_AND_DELETE, log.DELETE),
    }
)

# The message has no age yet, or there is no message.
AGELESS: Final = frozenset(
    {log.SEND, log.SCHEDULE, log.DUPLICATE, log.PING, log.ARRIVE, log.ADMINISTRATION}
)

# Never about one message.
WITHOUT_MESSAGE: Final = frozenset(
    {log.PING, log.REFUSE, log.RECEIVE_EMPTY, log.ADMINISTRATION}
)


def result_of(operation: int, *, is_event: bool) -> str:
    """ok, refused or empty."""
    if operation == log.REFUSE:
        return "refused"
    if operation == log.RECEIVE_EMPTY or (operation == log.PEEK and is_event):
        return "empty"
    return "ok"
