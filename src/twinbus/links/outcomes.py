"""Translates a client's delivery state to a settlement.

| state                          | settlement                     |
|--------------------------------|--------------------------------|
| accepted                       | complete                       |
| modified, undeliverable here   | defer                          |
| modified                       | abandon, whatever else it says |
| rejected                       | dead-letter                    |
| released, or settled and empty | release                        |

A confirmation contains the kind of settlement. `STATE_OF` has the state that is sent
for it: the same outcome, and for a rejected one without an error.
"""

from collections.abc import Mapping
from typing import Final, final

from twinbus.amqp.codec import encode
from twinbus.amqp.composite import encode_composite
from twinbus.amqp.errors import AmqpError
from twinbus.amqp.outcomes import (
    ACCEPTED,
    ACCEPTED_OUTCOME,
    MODIFIED,
    REJECTED,
    RELEASED,
    Accepted,
    Modified,
    Outcome,
    Received,
    Rejected,
    Released,
)
from twinbus.amqp.transactions import TransactionalState
from twinbus.broker import settlement
from twinbus.broker.changes import ChangeSet
from twinbus.broker.fragment import Fragment
from twinbus.broker.message_lock import MessageLock
from twinbus.errors import ArgumentOutOfRange, NotSupported
from twinbus.limits import DEAD_LETTER_TEXT_CHARACTERS

# Kinds of settlements: see `broker/settlement.py`.
COMPLETE: Final = 0
ABANDON: Final = 1
DEFER: Final = 2
DEAD_LETTER: Final = 3
RELEASE: Final = 4

STATE_OF: Final = (ACCEPTED, MODIFIED, MODIFIED, REJECTED, RELEASED)
_OUTCOME_OF: Final[tuple[Outcome, ...]] = (
    ACCEPTED_OUTCOME,
    Modified(),
    Modified(),
    Rejected(),
    Released(),
)

REASON: Final = "DeadLetterReason"
DESCRIPTION: Final = "DeadLetterErrorDescription"


def is_terminal(state: object, settled: bool) -> bool:
    """True if the delivery ends with this state, unlike `received`, for example."""
    return settled or not (state is None or isinstance(state, Received))


@final
class Settlement:
    """A settlement that a client asked for, checked."""

    def __init__(
        self,
        kind: int,
        modified: dict[str, bytes] | None = None,
        reason: str | None = None,
        description: str | None = None,
    ) -> None:
        self.kind: int = kind
        self._modified: dict[str, bytes] | None = modified
        self._reason: str | None = reason
        self._description: str | None = description

    def size_bytes(self) -> int:
        """Bytes that it holds in memory until it is applied."""
        texts = len(self._reason or "") + len(self._description or "")
        modified = self._modified or {}
        return texts + sum(len(name) + len(value) for name, value in modified.items())

    def check(self, fragment: Fragment, lock: MessageLock) -> None:
        """Raises MessageSizeExceeded or QuotaExceeded if the message cannot be settled
        like this. The lock must be held."""
        if self._modified:
            settlement.check_properties(fragment, lock, self._modified)
        if self.kind in (ABANDON, DEAD_LETTER):
            fragment.check_dead_letters()

    def apply(
        self,
        fragment: Fragment,
        lock: MessageLock,
        actor: int,
        now: int,
        changes: ChangeSet,
    ) -> None:
        """Raises MessageLockLost, SessionLockLost, NotAllowed, MessageSizeExceeded."""
        modified = self._modified
        if self.kind == COMPLETE:
            settlement.complete(fragment, lock, actor, now, changes)
        elif self.kind == ABANDON:
            settlement.abandon(fragment, lock, modified, actor, now, changes)
        elif self.kind == DEFER:
            settlement.defer(fragment, lock, modified, actor, now, changes)
        elif self.kind == RELEASE:
            settlement.release(fragment, lock, actor, now, changes)
        else:
            reason, text = self._reason, self._description
            settlement.dead_letter(
                fragment, lock, reason, text, modified, actor, now, changes
            )


def settle(
    fragment: Fragment,
    lock: MessageLock,
    state: object,
    actor: int,
    now: int,
    changes: ChangeSet,
) -> int:
    """Apply a client's outcome; return the kind of settlement to confirm.

    Raises as `Settlement.apply` and `settlement_of` do.
    """
    if state is ACCEPTED_OUTCOME:
        settlement.complete(fragment, lock, actor, now, changes)
        return COMPLETE
    intended = settlement_of(state, fragment.settings.path)
    intended.apply(fragment, lock, actor, now, changes)
    return intended.kind


def settlement_of(state: object, path: str) -> Settlement:
    """The settlement for an outcome. Raises ArgumentOutOfRange, NotSupported."""
    if isinstance(state, Accepted):
        return Settlement(COMPLETE)
    if isinstance(state, Modified):
        kind = DEFER if state.undeliverable_here else ABANDON
        return Settlement(kind, modified_properties(state.message_annotations))
    if isinstance(state, Rejected):
        info = state.error.info if isinstance(state.error, AmqpError) else None
        reason, description, modified = _dead_letter_texts(info or {})
        return Settlement(DEAD_LETTER, modified, reason, description)
    if state is None or isinstance(state, Released):
        return Settlement(RELEASE)
    raise NotSupported(
        "A delivery can be accepted, modified, rejected or released.",
        entity_path=path,
    )


def modified_properties(
    properties: Mapping[object, object] | None,
) -> dict[str, bytes] | None:
    """Properties to set, with encoded values."""
    if not properties:
        return None
    return {str(name): encode(value) for name, value in properties.items()}


def _dead_letter_texts(
    info: Mapping[object, object],
) -> tuple[str | None, str | None, dict[str, bytes] | None]:
    """Reason, description, and the other properties to set."""
    texts = {str(name): value for name, value in info.items()}
    reason = dead_letter_text(texts.pop(REASON, None))
    description = dead_letter_text(texts.pop(DESCRIPTION, None))
    others = {name: encode(value) for name, value in texts.items()}
    return reason, description, others or None


def dead_letter_text(value: object) -> str | None:
    """A reason or description as text. Raises ArgumentOutOfRange."""
    if value is None:
        return None
    text = str(value)
    if len(text) > DEAD_LETTER_TEXT_CHARACTERS:
        raise ArgumentOutOfRange(
            f"A dead-letter reason or description has {len(text)} characters; at "
            f"most {DEAD_LETTER_TEXT_CHARACTERS} are allowed."
        )
    return text


# --- as part of a transaction -------------------------------------------------------
# Only an answer that means success has the transaction's state. A refusal is a plain
# rejected, because SDKs take any transactional state for success.


def accepted_in(txn_id: bytes) -> bytes:
    """The message is accepted if the transaction commits."""
    return settled_in(txn_id, COMPLETE)


def settled_in(txn_id: bytes, kind: int) -> bytes:
    """The settlement is accepted if the transaction commits."""
    outcome = _OUTCOME_OF[kind]
    return encode_composite(TransactionalState(txn_id=txn_id, outcome=outcome))
