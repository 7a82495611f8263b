"""Settlement: how the delivery of a locked message ends.

| settle      | the message                                   | delivery count |
|-------------|-----------------------------------------------|----------------|
| complete    | is removed                                    |                |
| abandon     | is ready again, or dead-lettered at the limit | + 1            |
| release     | is ready again                                | unchanged      |
| defer       | waits until it is requested by number         | unchanged      |
| dead-letter | moves to the dead-letter queue                | unchanged      |

Each function checks that its fragment still holds the lock, and writes the change; the
reply is sent after the commit. A deferred message that is abandoned or released stays
deferred. Deliveries of a dead letter are not counted: its count shows why it was
dead-lettered.
"""

from collections.abc import Mapping
from dataclasses import replace

from twinbus.broker import operation_log
from twinbus.broker.changes import ChangeSet
from twinbus.broker.delivery_count import count_delivery, make_available, mark_changed
from twinbus.broker.fragment import Fragment
from twinbus.broker.message import DEFERRED, NO_ANNEX, NOWHERE, Message
from twinbus.broker.message_lock import MessageLock
from twinbus.errors import MessageSizeExceeded, NotAllowed
from twinbus.limits import PROPERTIES_BYTES


def complete(
    fragment: Fragment, lock: MessageLock, actor: int, now: int, changes: ChangeSet
) -> None:
    """The message was processed. Raises MessageLockLost, SessionLockLost."""
    message = lock.message
    _settle(fragment, lock, operation_log.COMPLETE, actor, now, changes)
    fragment.forget(message, changes)


def abandon(
    fragment: Fragment,
    lock: MessageLock,
    modified: Mapping[str, bytes] | None,
    actor: int,
    now: int,
    changes: ChangeSet,
) -> None:
    """The receiver could not process the message now.

    Raises MessageLockLost, SessionLockLost, MessageSizeExceeded.
    """
    _settle(fragment, lock, operation_log.ABANDON, actor, now, changes, modified)
    count_delivery(fragment, lock.message, now, changes)


def release(
    fragment: Fragment, lock: MessageLock, actor: int, now: int, changes: ChangeSet
) -> None:
    """The receiver did not use the message. Raises MessageLockLost, SessionLockLost."""
    _settle(fragment, lock, operation_log.RELEASE, actor, now, changes)
    make_available(fragment, lock.message, changes)


def defer(
    fragment: Fragment,
    lock: MessageLock,
    modified: Mapping[str, bytes] | None,
    actor: int,
    now: int,
    changes: ChangeSet,
) -> None:
    """Set the message aside until it is requested by its sequence number.

    Raises MessageLockLost, SessionLockLost, MessageSizeExceeded.
    """
    message = lock.message
    _settle(fragment, lock, operation_log.DEFER, actor, now, changes, modified)
    message.place = NOWHERE
    if message.state == DEFERRED:
        changes.deferred_changed.append(message)
        return
    put_by(fragment, message, changes)


def put_by(fragment: Fragment, message: Message, changes: ChangeSet) -> None:
    """Make an active message a deferred one."""
    fragment.touch(changes)
    message.state = DEFERRED
    fragment.active_count -= 1
    fragment.deferred_count += 1
    changes.active_removed.append(message.row_id)
    if message.absent_bytes != 0 and not message.is_shared:
        message.copied_from = message.row_id
        changes.deferred_moved.append(message)
    else:
        changes.deferred_added.append(message)


def dead_letter(
    fragment: Fragment,
    lock: MessageLock,
    reason: str | None,
    description: str | None,
    modified: Mapping[str, bytes] | None,
    actor: int,
    now: int,
    changes: ChangeSet,
) -> None:
    """The receiver gave up on the message. Raises MessageLockLost, SessionLockLost,
    MessageSizeExceeded.

    A dead letter that is dead-lettered again stays in its queue, with the new reason.
    """
    message = lock.message
    operation = operation_log.DEAD_LETTER
    _settle(fragment, lock, operation, actor, now, changes, modified, reason)
    if not fragment.settings.is_dead_letter_queue:
        fragment.move_to_dead_letters(message, reason, description, now, changes)
        return
    message.annex = replace(
        message.annex or NO_ANNEX,
        dead_letter_reason=reason,
        dead_letter_description=description,
    )
    mark_changed(message, changes)
    make_available(fragment, message, changes)


def _settle(
    fragment: Fragment,
    lock: MessageLock,
    operation: int,
    actor: int,
    now: int,
    changes: ChangeSet,
    modified: Mapping[str, bytes] | None = None,
    reason: str | None = None,
) -> None:
    """Check and end the lock. Raises what the settlements raise."""
    changes.check_home(fragment)
    if not fragment.holds(lock, now):
        raise fragment.lock_lost()
    check_not_enlisted(fragment, lock)
    if modified:
        check_properties(fragment, lock, modified)
        _modify(lock.message, modified)
    fragment.end_lock(lock)
    detail = 0 if reason is None else changes.log.text(reason)
    changes.log.record(operation, actor, lock.message, now, detail)


def check_not_enlisted(fragment: Fragment, lock: MessageLock) -> None:
    """Raises NotAllowed if an open transaction settles the message."""
    if lock.enlisted_in is not None:
        raise NotAllowed(
            f"The message of '{fragment.settings.path}' is settled in a transaction "
            "that is not discharged yet. Commit it, or roll it back.",
            entity_path=fragment.settings.path,
        )


def check_properties(
    fragment: Fragment, lock: MessageLock, modified: Mapping[str, bytes]
) -> None:
    """Raises MessageSizeExceeded if the properties set by settlements become too large.
    They are kept with the message, which can be abandoned again and again."""
    annex = lock.message.annex or NO_ANNEX
    size_bytes = 0
    for name, value in {**annex.modified, **modified}.items():
        size_bytes += len(name) + len(value)
    if size_bytes > PROPERTIES_BYTES:
        raise MessageSizeExceeded(
            f"The properties that settlements set on a message of "
            f"'{fragment.settings.path}' would have {size_bytes} bytes; at most "
            f"{PROPERTIES_BYTES} are allowed. Set fewer.",
            entity_path=fragment.settings.path,
        )


def _modify(message: Message, modified: Mapping[str, bytes]) -> None:
    """Set application properties, in addition to those of earlier settlements."""
    annex = message.annex or NO_ANNEX
    message.annex = replace(annex, modified={**annex.modified, **modified})
