"""The delivery count: a message that fails too often becomes a dead letter.

A delivery fails when the message is abandoned, when its lock ends, and when its session
is lost. At MaxDeliveryCount the message moves to the dead-letter queue.
"""

from twinbus.broker.changes import ChangeSet
from twinbus.broker.fragment import Fragment
from twinbus.broker.message import ACTIVE, NOWHERE, Message


def count_delivery(
    fragment: Fragment, message: Message, now: int, changes: ChangeSet
) -> None:
    """Count a failed delivery; the message is ready again, or dead-lettered."""
    changes.check_home(fragment)
    changes.count_delivery(message.size_bytes())
    if fragment.settings.is_dead_letter_queue:
        mark_changed(message, changes)
        make_available(fragment, message, changes)
        return
    message.delivery_count += 1
    limit = fragment.settings.max_delivery_count
    if message.delivery_count >= limit:
        fragment.move_to_dead_letters(
            message,
            "MaxDeliveryCountExceeded",
            f"Message could not be consumed after {limit} delivery attempts.",
            now,
            changes,
        )
        return
    mark_changed(message, changes)
    make_available(fragment, message, changes)


def make_available(fragment: Fragment, message: Message, changes: ChangeSet) -> None:
    """The message is ready again; a deferred one stays deferred."""
    message.place = NOWHERE
    if message.state == ACTIVE:
        fragment.come_back(message, changes)


def mark_changed(message: Message, changes: ChangeSet) -> None:
    """Have the message written again."""
    if message.state == ACTIVE:
        changes.active_changed.append(message)
    else:
        changes.deferred_changed.append(message)
