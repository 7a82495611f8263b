"""A control link on a `Peer`, and work in its transactions: exact frames."""

from typing import Any

from .codec import Described, Uint, Ulong
from .frames import (
    ACCEPTED,
    DISPOSITION,
    RECEIVER,
    REJECTED,
    SENDER,
    TRANSFER,
    AmqpError,
    error_of,
    outcome,
)
from .message import value_message
from .peer import Peer, ReceiverLink, SenderLink

COORDINATOR, DECLARE, DISCHARGE = 0x30, 0x31, 0x32
DECLARED, TRANSACTIONAL = 0x33, 0x34

UNKNOWN = "amqp:transaction:unknown-id"
ROLLBACK = "amqp:transaction:rollback"
TIMEOUT = "amqp:transaction:timeout"


class Controller:
    """A control link."""

    def __init__(self, peer: Peer, **changes: Any) -> None:
        target = Described(Ulong(COORDINATOR), [])
        self.link = peer.sender("", **{"target": target, **changes})

    def ask(self, code: int, *fields: Any) -> tuple[int, list[Any]]:
        """Send a request; gives code and fields of the settled answer."""
        body = Described(Ulong(code), list(fields))
        return self.outcome_of(self.link.post(value_message(body)))

    def outcome_of(self, delivery_id: int) -> tuple[int, list[Any]]:
        frame = self.link.peer.find(
            DISPOSITION,
            lambda frame: frame.role is RECEIVER and frame.first == delivery_id,
        )
        assert frame.settled is True
        return int(frame.state.descriptor), frame.state.value

    def declare(self) -> bytes:
        code, fields = self.ask(DECLARE)
        assert code == DECLARED and len(fields) == 1
        assert isinstance(fields[0], bytes)
        return fields[0]

    def commit(self, txn_id: bytes) -> AmqpError | None:
        """Why it was rolled back; None if it was committed."""
        return self._discharged(self.ask(DISCHARGE, txn_id, False))

    def roll_back(self, txn_id: bytes) -> AmqpError | None:
        return self._discharged(self.ask(DISCHARGE, txn_id, True))

    def _discharged(self, answer: tuple[int, list[Any]]) -> AmqpError | None:
        code, fields = answer
        assert code in (ACCEPTED, REJECTED)
        return error_of(fields[0]) if code == REJECTED else None


def post_in(
    txn_id: bytes, link: SenderLink, payload: bytes, *, settled: bool = False
) -> int:
    """Send a message in a transaction; gives its delivery id."""
    link.wait_for_credit()
    peer, at = link.peer, link.peer.next_delivery_id
    fields = [Uint(link.handle), Uint(at), at.to_bytes(4, "big"), Uint(0), settled]
    state = outcome(TRANSACTIONAL, txn_id)
    peer.send(TRANSFER, [*fields, False, None, state], payload)
    peer.next_delivery_id += 1
    peer.next_outgoing_id += 1
    peer.window -= 1
    link.delivery_count += 1
    link.credit -= 1
    return at


def send_in(txn_id: bytes, link: SenderLink, payload: bytes) -> AmqpError | None:
    """Send a message in a transaction; gives the refusal, or None.

    Success is told in the transaction's name, a refusal is not.
    """
    at = post_in(txn_id, link, payload)
    frame = link.peer.find(
        DISPOSITION, lambda frame: frame.role is RECEIVER and frame.first == at
    )
    assert frame.settled is True
    if frame.state.descriptor == REJECTED:
        return error_of(frame.state.value[0])
    assert frame.state.descriptor == TRANSACTIONAL
    assert frame.state.value[0] == txn_id
    assert frame.state.value[1].descriptor == ACCEPTED
    return None


def settle_in(
    txn_id: bytes, link: ReceiverLink, delivery_id: int, state: Any = None
) -> AmqpError | None:
    """Settle a delivery in a transaction; gives the refusal, or None.

    The echo is unsettled: after a rollback the delivery can be settled again.
    """
    wanted = outcome(ACCEPTED) if state is None else state
    link.settle(delivery_id, outcome(TRANSACTIONAL, txn_id, wanted))
    frame = link.peer.expect(
        DISPOSITION,
        lambda frame: frame.role is SENDER and frame.first == delivery_id,
    )
    if frame.state.descriptor == REJECTED:
        assert frame.settled is True
        return error_of(frame.state.value[0])
    assert not frame.settled
    assert frame.state.descriptor == TRANSACTIONAL
    assert frame.state.value[0] == txn_id
    assert frame.state.value[1].descriptor == wanted.descriptor
    return None
