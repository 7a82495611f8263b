"""What a client's delivery state means to the domain (protocol brief 4.1).

| state                          | settlement                     |
|--------------------------------|--------------------------------|
| accepted                       | complete                       |
| modified, undeliverable here   | defer                          |
| modified                       | abandon, whatever else it says |
| rejected                       | dead-letter                    |
| released, or settled and empty | release                        |

The numbers are what a confirmation carries; `STATE_OF` is how it is echoed: the
same kind of outcome, and for a rejected one without an error.
"""

from collections.abc import Mapping
from typing import Final

from twinbus.amqp.codec import encode
from twinbus.amqp.errors import AmqpError
from twinbus.amqp.outcomes import (
    ACCEPTED,
    ACCEPTED_OUTCOME,
    MODIFIED,
    REJECTED,
    RELEASED,
    Modified,
    Received,
    Rejected,
    Released,
)
from twinbus.broker import settlement
from twinbus.broker.changes import ChangeSet
from twinbus.broker.fragment import Fragment
from twinbus.broker.message_lock import MessageLock
from twinbus.errors import ArgumentOutOfRange, NotSupported
from twinbus.limits import DEAD_LETTER_TEXT_CHARACTERS

_ACCEPTED: Final = 0
_MODIFIED: Final = 1
_REJECTED: Final = 2
_RELEASED: Final = 3

STATE_OF: Final = (ACCEPTED, MODIFIED, REJECTED, RELEASED)

REASON: Final = "DeadLetterReason"
DESCRIPTION: Final = "DeadLetterErrorDescription"


def is_terminal(state: object, settled: bool) -> bool:
    """The delivery ends with this state; `received` and the like say nothing yet."""
    return settled or not (state is None or isinstance(state, Received))


def settle(
    fragment: Fragment,
    lock: MessageLock,
    state: object,
    actor: int,
    now: int,
    changes: ChangeSet,
) -> int:
    """Apply a client's outcome; returns the kind of outcome to confirm.

    Raises MessageLockLost, ArgumentOutOfRange, NotSupported.
    """
    if state is ACCEPTED_OUTCOME:
        settlement.complete(fragment, lock, actor, now, changes)
        return _ACCEPTED
    if isinstance(state, Modified):
        modified = modified_properties(state.message_annotations)
        if state.undeliverable_here:
            settlement.defer(fragment, lock, modified, actor, now, changes)
        else:
            settlement.abandon(fragment, lock, modified, actor, now, changes)
        return _MODIFIED
    if isinstance(state, Rejected):
        info = state.error.info if isinstance(state.error, AmqpError) else None
        reason, description, modified = _dead_letter_texts(info or {})
        settlement.dead_letter(
            fragment, lock, reason, description, modified, actor, now, changes
        )
        return _REJECTED
    if state is None or isinstance(state, Released):
        settlement.release(fragment, lock, actor, now, changes)
        return _RELEASED
    raise NotSupported(
        "A delivery can be accepted, modified, rejected or released; transactions "
        "are not supported by this version of the bus.",
        entity_path=fragment.settings.path,
    )


def modified_properties(
    properties: Mapping[object, object] | None,
) -> dict[str, bytes] | None:
    """Properties to set, their values encoded as they came."""
    if not properties:
        return None
    return {str(name): encode(value) for name, value in properties.items()}


def _dead_letter_texts(
    info: Mapping[object, object],
) -> tuple[str | None, str | None, dict[str, bytes] | None]:
    """Reason, description, and the properties to set besides."""
    texts = {str(name): value for name, value in info.items()}
    reason = dead_letter_text(texts.pop(REASON, None))
    description = dead_letter_text(texts.pop(DESCRIPTION, None))
    others = {name: encode(value) for name, value in texts.items()}
    return reason, description, others or None


def dead_letter_text(value: object) -> str | None:
    """A reason or description as it was given. Raises ArgumentOutOfRange."""
    if value is None:
        return None
    text = str(value)
    if len(text) > DEAD_LETTER_TEXT_CHARACTERS:
        raise ArgumentOutOfRange(
            f"A dead-letter reason or description has {len(text)} characters; at "
            f"most {DEAD_LETTER_TEXT_CHARACTERS} are allowed."
        )
    return text
