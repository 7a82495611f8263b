"""Scheduled messages: accepted now, active later.

A scheduled message is in a table of its own, with a sequence number by which it can be
cancelled. At its time it is enqueued like a new message, with a new sequence number,
enqueued time and time to live. The old number is no longer valid.
"""

from twinbus.broker import operation_log
from twinbus.broker.changes import ChangeSet
from twinbus.broker.fragment import Fragment
from twinbus.broker.message import SCHEDULED, Message, uid_of
from twinbus.errors import NotAllowed


def schedule(
    fragment: Fragment, message: Message, actor: int, now: int, changes: ChangeSet
) -> None:
    """Accept a message that becomes active at `message.scheduled_at`."""
    reserve(fragment, message)
    schedule_reserved(fragment, message, actor, now, changes)


def reserve(fragment: Fragment, message: Message) -> None:
    """Give the message its sequence number, before it is checked."""
    message.row_id = fragment.base + fragment.next_sequence
    fragment.next_sequence += 1


def schedule_reserved(
    fragment: Fragment, message: Message, actor: int, now: int, changes: ChangeSet
) -> None:
    """Accept a message that has its sequence number already."""
    fragment.touch(changes)
    message.state = SCHEDULED
    message.enqueued_at = now
    fragment.scheduled_count += 1
    fragment.resize(len(message.raw))
    changes.scheduled_added.append(message)
    changes.pending_bytes += len(message.raw)
    changes.log.record(operation_log.SCHEDULE, actor, message, now)


def activate(
    fragment: Fragment, message: Message, now: int, changes: ChangeSet
) -> None:
    """Enqueue a scheduled message whose time has come."""
    _leave_schedule(
        fragment, message, operation_log.ACTIVATE, operation_log.THE_BUS, now, changes
    )
    active = Message(message.raw, message.layout, message.ttl_ms, message.scheduled_at)
    active.annex = message.annex
    active.session_id = message.session_id
    active.uid = uid_of(message, fragment.home.store_uuid)
    fragment.adopt(active, now, changes)


def cancel(
    fragment: Fragment, message: Message, actor: int, now: int, changes: ChangeSet
) -> None:
    """Remove a scheduled message, because its sender cancelled it."""
    _leave_schedule(fragment, message, operation_log.CANCEL, actor, now, changes)


def claim(fragment: Fragment, message: Message, claimant: object) -> None:
    """Note which transaction will cancel the message. Raises NotAllowed if one does."""
    if message.row_id in fragment.cancelling:
        raise NotAllowed(
            f"The message {fragment.sequence_number(message)} of "
            f"'{fragment.settings.path}' is cancelled in a transaction that is not "
            "discharged yet. Commit it, or roll it back.",
            entity_path=fragment.settings.path,
        )
    fragment.cancelling[message.row_id] = claimant


def _leave_schedule(
    fragment: Fragment,
    message: Message,
    operation: int,
    actor: int,
    now: int,
    changes: ChangeSet,
) -> None:
    fragment.touch(changes)
    fragment.cancelling.pop(message.row_id, None)
    fragment.scheduled_count -= 1
    fragment.resize(-len(message.raw))
    changes.scheduled_removed.append(message.row_id)
    changes.log.record(operation, actor, message, now)
