"""How a message gets into an entity: checked, looked up if need be, enqueued.

The one way in for senders, schedules and transactions. `check` says whether the
entity takes the message at all; `accept` takes it. Where duplicates are detected, or
the message has an id of twinbus's own, the two are parted by a look at the store
(`Sending`).

A ping is checked as a message, and then never becomes one.
"""

from typing import final

from twinbus.broker import operation_log, schedule
from twinbus.broker.admission import Admission, Duplicates
from twinbus.broker.commit_listener import CommitListener
from twinbus.broker.fragment import Fragment
from twinbus.broker.home import Home
from twinbus.broker.message import Message
from twinbus.encoding.identity import (
    check_keys,
    duplicate_key,
    restored_from,
    send_key,
)
from twinbus.encoding.layout import IDENTIFIED, PING
from twinbus.encoding.naming import name_message
from twinbus.errors import (
    STORE_IS_FULL,
    EntityDisabled,
    NotAllowed,
    ServerBusy,
    ServiceBusError,
)


def check_room(fragment: Fragment, size_bytes: int, now: int) -> None:
    """Raises ServerBusy, QuotaExceeded, MessagingEntityNotFound."""
    home = fragment.home
    if now < home.refuses_until or size_bytes > home.room_bytes:
        raise ServerBusy(STORE_IS_FULL, entity_path=fragment.settings.path)
    fragment.check_quota(size_bytes)


def check_status(fragment: Fragment) -> None:
    """Raises EntityDisabled if the entity takes no messages at present."""
    if not fragment.settings.takes_messages:
        raise EntityDisabled(entity_path=fragment.settings.path)


def check(fragment: Fragment, message: Message) -> None:
    """Raises NotAllowed if the entity does not take this message."""
    if message.layout & PING != 0:
        return
    if fragment.settings.requires_session and message.session_id is None:
        raise NotAllowed(
            f"'{fragment.settings.path}' requires sessions: set the message's "
            "session id.",
            entity_path=fragment.settings.path,
        )
    if message.session_id is not None:
        check_keys(message)


def accept(fragment: Fragment, message: Message, actor: int, now: int) -> None:
    """Enqueue the message, or put it on the schedule."""
    home = fragment.home
    if message.layout & PING != 0:
        fragment.take_ping(len(message.raw), actor, now, home.changes)
        return
    give_id(home, message)
    if message.scheduled_at > now:
        schedule.schedule(fragment, message, actor, now, home.changes)
        home.expect(message.scheduled_at)
    else:
        fragment.enqueue(message, actor, now, home.changes)


def give_id(home: Home, message: Message) -> None:
    """If it has none. Not before duplicates were looked for: an id of ours finds none,
    and need not be remembered."""
    if message.lacks_id:
        name_message(message, home.message_ids.next())


def accept_unless_seen(
    fragment: Fragment,
    message: Message,
    actor: int,
    now: int,
    duplicates: Duplicates,
) -> None:
    """Enqueue the message; a duplicate is accepted, too, and dropped. It has no row
    id then."""
    if was_seen(fragment, message, now, duplicates):
        fragment.home.changes.log.record(operation_log.DUPLICATE, actor, message, now)
    else:
        accept(fragment, message, actor, now)


def was_seen(
    fragment: Fragment, message: Message, now: int, duplicates: Duplicates
) -> bool:
    """The message is here already, or was; what tells it from others is remembered."""
    if message.layout & PING != 0:
        return False
    if message.layout & IDENTIFIED != 0 and _is_known(
        fragment, message, now, duplicates
    ):
        return True
    if not finds_duplicates(fragment):
        return False
    unique_id = duplicate_key(message)
    window_ms = fragment.settings.duplicate_window_ms
    return unique_id is not None and not duplicates.is_new(
        fragment, unique_id, window_ms, now, fragment.home.changes
    )


def _is_known(
    fragment: Fragment, message: Message, now: int, duplicates: Duplicates
) -> bool:
    """By an id of twinbus's own. What is dropped for its send id was restored, too."""
    home = fragment.home
    origin = restored_from(message)
    if origin is not None and not duplicates.is_first_restore(origin, home.changes):
        return True
    send_id = send_key(message)
    window_ms = home.send_id_window_ms
    return send_id is not None and not duplicates.is_new(
        fragment, send_id, window_ms, now, home.changes
    )


def finds_duplicates(fragment: Fragment) -> bool:
    return fragment.settings.duplicate_window_ms != 0


def ask_for_duplicates(
    fragment: Fragment, messages: list[Message], admission: Admission
) -> None:
    """Have the ids of the messages looked up: those of twinbus's own, and message ids
    if the entity detects duplicates."""
    detects = finds_duplicates(fragment)
    for message in messages:
        if message.layout & PING != 0:
            continue
        if message.layout & IDENTIFIED != 0:
            _ask_for_known(fragment, message, admission)
        unique_id = duplicate_key(message) if detects else None
        if unique_id is not None:
            admission.ask(fragment, unique_id)


def _ask_for_known(fragment: Fragment, message: Message, admission: Admission) -> None:
    origin = restored_from(message)
    if origin is not None:
        admission.ask_restored(origin)
    send_id = send_key(message)
    if send_id is not None:
        admission.ask(fragment, send_id)


@final
class Sending(Admission):
    """Messages that may be here already, or that are to be numbered first."""

    def __init__(
        self,
        fragment: Fragment,
        messages: list[Message],
        actor: int,
        delivery_id: int,
        link: CommitListener | None,
    ) -> None:
        super().__init__()
        self._fragment: Fragment = fragment
        self._messages: list[Message] = messages
        self._actor: int = actor
        self._delivery_id: int = delivery_id
        # Who is to be told; None if nobody waits.
        self._link: CommitListener | None = link
        # Nothing that follows may be enqueued before.
        self.is_applied: bool = False
        for message in messages:
            self.pending_bytes += len(message.raw)
        ask_for_duplicates(fragment, messages, self)

    def apply(self, duplicates: Duplicates, now: int) -> None:
        fragment, link = self._fragment, self._link
        self.is_applied = True
        try:
            check_room(fragment, self.pending_bytes, now)
        except ServiceBusError as error:
            if link is not None:
                link.failed([self._delivery_id], error)
            return
        for message in self._messages:
            accept_unless_seen(fragment, message, self._actor, now, duplicates)
        if link is not None:
            home = fragment.home
            link.note(home, self._delivery_id)
