"""Settles the messages of a reader lease: by sequence number, without locks.

| settle      | the message                              |
|-------------|------------------------------------------|
| complete    | is removed                               |
| defer       | waits until it is requested by number    |
| dead-letter | moves to the dead-letter queue           |

The caller holds the reader lease and has read the messages from the store, without
those that the open change set removes.
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
    """Complete active messages of a range."""
    for at, row_id in enumerate(messages.row_ids):
        size_bytes, body_id = messages.sizes[at], messages.body_ids[at]
        changes.log.add(
            operation_log.COMPLETE,
            actor,
            row_id,
            size_bytes,
            messages.enqueued_at[at],
            now,
            messages.uids.get(row_id, b""),
            messages.origins.get(row_id, 0),
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
    assert message.state == ACTIVE, "the message is deferred already"
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
    detail = changes.log.text(reason)
    changes.log.record(operation_log.DEAD_LETTER, actor, message, now, detail)
    fragment.move_to_dead_letters(message, reason, description, now, changes)
