"""How the messages of a reader are settled: by their numbers, without locks.

| settle      | the message                           |
|-------------|---------------------------------------|
| complete    | is gone                               |
| defer       | waits until it is asked for by number |
| dead-letter | goes on in the dead-letter queue      |

Whoever calls holds the reader lease and has read the messages from the store; what of
them the open change set removes has been left out.
"""

from twinbus.broker import operation_log
from twinbus.broker.changes import ChangeSet
from twinbus.broker.fragment import Fragment
from twinbus.broker.message import ACTIVE, Message
from twinbus.broker.outline import Outlines
from twinbus.broker.settlement import put_by


def complete(
    fragment: Fragment, messages: Outlines, actor: int, now: int, changes: ChangeSet
) -> None:
    """Active ones, of a range."""
    for at, row_id in enumerate(messages.row_ids):
        size_bytes, body_id = messages.sizes[at], messages.body_ids[at]
        changes.log.add(
            operation_log.COMPLETE,
            actor,
            row_id,
            size_bytes,
            messages.enqueued_at[at],
            now,
        )
        fragment.forget_unloaded(row_id, size_bytes, body_id, changes)


def complete_deferred(
    fragment: Fragment, message: Message, actor: int, now: int, changes: ChangeSet
) -> None:
    changes.log.record(operation_log.COMPLETE, actor, message, now)
    fragment.forget(message, changes)


def defer(
    fragment: Fragment, message: Message, actor: int, now: int, changes: ChangeSet
) -> None:
    assert message.state == ACTIVE, "a deferred message is deferred"
    changes.log.record(operation_log.DEFER, actor, message, now)
    put_by(fragment, message, changes)


def dead_letter(
    fragment: Fragment,
    message: Message,
    reason: str,
    description: str,
    actor: int,
    now: int,
    changes: ChangeSet,
) -> None:
    changes.log.record(operation_log.DEAD_LETTER, actor, message, now)
    fragment.move_to_dead_letters(message, reason, description, now, changes)
