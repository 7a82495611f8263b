"""How a message gets into an entity: checked, looked up if needed, enqueued.

Senders, schedules and transactions all use this. `check` says whether the entity
accepts the message; `accept` enqueues it. If duplicates are detected, or the message
has a twinbus id, there is a look-up in the store in between (`Sending`,
`duplicate_detection.py`).

A ping is checked like a message, but not stored.
"""

from typing import final

from twinbus.broker import schedule
from twinbus.broker.admission import Admission, Duplicates
from twinbus.broker.commit_listener import CommitListener
from twinbus.broker.fragment import Fragment
from twinbus.broker.fragment_address import FragmentAddress
from twinbus.broker.fragment_settings import FragmentSettings
from twinbus.broker.home import Home
from twinbus.broker.message import Message
from twinbus.encoding.envelope import encode_envelope
from twinbus.encoding.identity import check_keys
from twinbus.encoding.incoming import read_message
from twinbus.encoding.layout import IDENTIFIED, PING
from twinbus.encoding.naming import name_message
from twinbus.errors import (
    STORE_IS_FULL,
    EntityDisabled,
    NotAllowed,
    ServerBusy,
    ServiceBusError,
    StoreRefused,
)
from twinbus.limits import PROPERTIES_BYTES, TRANSFER_HEADROOM_BYTES
from twinbus.links.duplicate_detection import ask_for_duplicates, was_seen


def check_room(fragment: Fragment, size_bytes: int, now: int) -> None:
    """Raises StoreRefused if the store is full, ServerBusy, QuotaExceeded,
    MessagingEntityNotFound."""
    home = fragment.home
    if now < home.refuses_until or size_bytes > home.room_bytes:
        raise _refusal(fragment, now)
    fragment.check_quota(size_bytes)


def _refusal(fragment: Fragment, now: int) -> ServerBusy:
    home, path = fragment.home, fragment.settings.path
    if now < home.refuses_until and home.refusal != STORE_IS_FULL:
        return ServerBusy(home.refusal, entity_path=path)
    return StoreRefused(STORE_IS_FULL, entity_path=path)


def is_full(home: Home, size_bytes: int, now: int) -> bool:
    """The store has no room for so many bytes. Other stores may have."""
    is_refusing = now < home.refuses_until and home.refusal == STORE_IS_FULL
    return is_refusing or size_bytes > home.room_bytes


def check_status(fragment: Fragment) -> None:
    """Raises EntityDisabled if the entity accepts no messages at present."""
    if not fragment.settings.takes_messages:
        raise EntityDisabled(entity_path=fragment.settings.path)


def check(fragment: Fragment, message: Message) -> None:
    """Raises NotAllowed if the entity does not accept this message."""
    check_message(fragment.settings, message)


def check_message(settings: FragmentSettings, message: Message) -> None:
    """The same for an entity whose fragment may be away."""
    if message.layout & PING != 0:
        return
    if settings.requires_session and message.session_id is None:
        raise NotAllowed(
            f"'{settings.path}' requires sessions: set the message's session id.",
            entity_path=settings.path,
        )
    if message.session_id is not None:
        check_keys(message)


def accept(fragment: Fragment, message: Message, actor: int, now: int) -> None:
    """Enqueue or schedule the message."""
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
    """Add a message id if there is none. This comes after the look-up of duplicates: a
    new random id is no duplicate, and need not be remembered."""
    if message.lacks_id:
        name_message(message, home.message_ids.next())


def give_keys_back(messages: list[Message]) -> None:
    """A commit has returned them, and their next way depends on their keys. A fragment
    without sessions has taken their session ids, which are keys all the same."""
    limit = PROPERTIES_BYTES + TRANSFER_HEADROOM_BYTES
    for message in messages:
        if message.session_id is None:
            read = read_message(message.raw, message.layout & IDENTIFIED, limit)
            message.session_id = read.session_id


def post(target: FragmentAddress, message: Message, origin: bytes, home: Home) -> None:
    """Put the message into the outbox of this home, for a fragment of another one.
    Duplicates are looked up there, when it arrives."""
    give_id(home, message)
    home.outbox.add(target, encode_envelope(message), origin, home.changes)


def accept_unless_seen(
    fragment: Fragment,
    message: Message,
    actor: int,
    now: int,
    duplicates: Duplicates,
) -> None:
    """Enqueue the message. A duplicate is accepted and dropped; its row id stays 0."""
    if was_seen(fragment, message, now, duplicates):
        fragment.home.changes.log.duplicate(actor, message, fragment.base, now)
    else:
        accept(fragment, message, actor, now)


@final
class Sending(Admission):
    """Messages that may be duplicates, or that follow such messages."""

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
        # Gets the outcome; None if it is not needed.
        self._link: CommitListener | None = link
        # Until then no later message may be enqueued.
        self.is_applied: bool = False
        # They are in no change set.
        self.is_refused: bool = False
        for message in messages:
            self.pending_bytes += len(message.raw)
        ask_for_duplicates(fragment, messages, self)

    def apply(self, duplicates: Duplicates, now: int) -> None:
        fragment, link = self._fragment, self._link
        self.is_applied = True
        try:
            if fragment.is_awaited():
                # Since it was admitted, earlier messages have taken the detour.
                raise StoreRefused(entity_path=fragment.settings.path)
            check_room(fragment, self.pending_bytes, now)
        except ServiceBusError as error:
            self.is_refused = True
            if link is not None:
                link.failed([self._delivery_id], error)
            return
        for message in self._messages:
            accept_unless_seen(fragment, message, self._actor, now, duplicates)
        if link is not None:
            home = fragment.home
            link.note(home, self._delivery_id)
