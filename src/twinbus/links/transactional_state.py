"""Answers to work that is part of a transaction.

Its outcome is wrapped in the transaction's id: it holds if that is committed. Only
success is wrapped; a refusal is a plain rejected, because an SDK takes every wrapped
state for a success.
"""

from typing import Final

from twinbus.amqp.composite import encode_composite
from twinbus.amqp.outcomes import (
    ACCEPTED_OUTCOME,
    Modified,
    Outcome,
    Rejected,
    Released,
)
from twinbus.amqp.transactions import TransactionalState

# By the kinds of `outcomes.py`.
_OUTCOMES: Final[tuple[Outcome, ...]] = (
    ACCEPTED_OUTCOME,
    Modified(),
    Modified(),
    Rejected(),
    Released(),
)


def accepted_in(txn_id: bytes) -> bytes:
    """A message was accepted, if the transaction is."""
    return settled_in(txn_id, 0)


def settled_in(txn_id: bytes, kind: int) -> bytes:
    """A settlement of this kind was accepted, if the transaction is."""
    return encode_composite(TransactionalState(txn_id=txn_id, outcome=_OUTCOMES[kind]))
