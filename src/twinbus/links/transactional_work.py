"""The work of a transaction: messages that its commit sends, schedules, cancels,
settles.

Sent messages get their sequence numbers by the commit, in the order in which the
transaction sent them. So they come after messages that were sent meanwhile.

The numbers of scheduled messages are returned at once, so they are taken when the work
is enlisted; a rollback leaves a gap. To cancel, a transaction claims the message. If it
leaves the schedule before the commit, because it is due or another client cancels it,
the claim is lost and the commit fails.

A message to settle stays locked until the commit, and cannot be settled otherwise. If
its lock runs out before, the commit fails. The delivery stays unsettled on its link, so
that the client can settle it after a rollback.
"""

from typing import Final, final

from twinbus.amqp.session import AmqpSession
from twinbus.broker import operation_log, schedule
from twinbus.broker.admission import Admission, Duplicates
from twinbus.broker.fragment import Fragment
from twinbus.broker.fragment_address import FragmentAddress
from twinbus.broker.home import Home
from twinbus.broker.message import Message
from twinbus.broker.message_lock import MessageLock
from twinbus.broker.outbox import SENT
from twinbus.broker.row_id import sequence_of
from twinbus.broker.transaction import Work
from twinbus.encoding.envelope import encode_envelope
from twinbus.encoding.layout import PING
from twinbus.errors import FragmentUnavailable, MessageNotFound, ServerBusy
from twinbus.links.duplicate_detection import ask_for_duplicates, was_seen
from twinbus.links.outcomes import STATE_OF, Settlement
from twinbus.links.sending import (
    accept,
    accept_unless_seen,
    check_room,
    check_status,
    give_id,
    post,
)


@final
class TransactionalSend(Work):
    """One delivery of a sender: a message, or a batch."""

    def __init__(
        self,
        fragment: Fragment,
        messages: list[Message],
        actor: int,
    ) -> None:
        super().__init__(fragment.home, fragment.settings.path)
        self._fragment: Fragment = fragment
        self._messages: list[Message] = messages
        self._actor: int = actor
        self.target = fragment
        self.can_travel = True
        self.message_count = len(messages)
        for message in messages:
            self.added_bytes += len(message.raw)

    def ask(self, admission: Admission) -> None:
        ask_for_duplicates(self._fragment, self._messages, admission)

    def check(self, now: int) -> None:
        self._check_order()
        check_room(self._fragment, 0, now)
        check_status(self._fragment)

    def _check_order(self) -> None:
        """Raises FragmentUnavailable for a moment, while messages that were sent before
        are brought to the fragment."""
        if self._fragment.is_awaited():
            path = self._fragment.settings.path
            raise FragmentUnavailable.numbered(self._fragment.index, path)

    def check_travel(self, home: Home, now: int) -> None:
        self._check_order()
        check_status(self._fragment)
        home.outbox.check_room(self.added_bytes, self._fragment.settings.path)

    def apply_from(self, home: Home) -> None:
        for message in self._messages:
            # A ping asks whether the entity takes messages: that was checked.
            if message.layout & PING == 0:
                post(self._fragment.address(), message, SENT, home)

    def shipment(self) -> list[object]:
        address = self._fragment.address()
        return shipped_messages(self.path, address, self._messages, self.home)

    def apply(self, duplicates: Duplicates, now: int) -> None:
        for message in self._messages:
            accept_unless_seen(self._fragment, message, self._actor, now, duplicates)


SEND_STEP: Final = "send"


def shipped_messages(
    path: str, address: FragmentAddress, messages: list[Message], home: Home
) -> list[object]:
    """Messages for a fragment, as another broker is told, which commits them."""
    envelopes: list[object] = []
    for message in messages:
        if message.layout & PING == 0:
            give_id(home, message)
            envelopes.append(encode_envelope(message))
    return [SEND_STEP, path, address.text, envelopes]


def number_of(fragment: Fragment, message: Message) -> int:
    """The sequence number that clients see; 0 for a dropped message or a ping."""
    return fragment.sequence_number(message) if message.row_id != 0 else 0


@final
class TransactionalSchedule(Work):
    """Messages that the commit schedules, with sequence numbers that are known before.

    A message that is due by then is scheduled, too: if it became active at once, it
    would come after messages with higher numbers.
    """

    def __init__(self, fragment: Fragment, messages: list[Message], actor: int) -> None:
        super().__init__(fragment.home, fragment.settings.path)
        self._fragment: Fragment = fragment
        self._messages: list[Message] = messages
        self._actor: int = actor
        # If the fragment was restored since, the numbers are not valid.
        self._restore_count: int = fragment.restore_count
        self.target = fragment
        self.message_count = len(messages)
        for message in messages:
            self.added_bytes += len(message.raw)

    def reserve(self) -> list[int]:
        """Take sequence numbers for the messages; a ping gets none."""
        for message in self._messages:
            if message.layout & PING == 0:
                schedule.reserve(self._fragment, message)
        return [number_of(self._fragment, message) for message in self._messages]

    def ask(self, admission: Admission) -> None:
        ask_for_duplicates(self._fragment, self._messages, admission)

    def check(self, now: int) -> None:
        fragment = self._fragment
        check_room(fragment, 0, now)
        check_status(fragment)
        if fragment.restore_count != self._restore_count:
            raise ServerBusy(
                "The message store has failed since messages were scheduled in "
                f"'{fragment.settings.path}': their numbers are no longer valid.",
                entity_path=fragment.settings.path,
            )

    def apply(self, duplicates: Duplicates, now: int) -> None:
        fragment, home, actor = self._fragment, self.home, self._actor
        for message in self._messages:
            if was_seen(fragment, message, now, duplicates):
                home.changes.log.record(operation_log.DUPLICATE, actor, message, now)
                continue
            if message.layout & PING != 0:
                accept(fragment, message, actor, now)
                continue
            give_id(home, message)
            message.scheduled_at = max(message.scheduled_at, now)
            schedule.schedule_reserved(fragment, message, actor, now, home.changes)
            home.expect(message.scheduled_at)


@final
class TransactionalCancel(Work):
    """A scheduled message that the commit cancels."""

    def __init__(self, fragment: Fragment, message: Message, actor: int) -> None:
        super().__init__(fragment.home, fragment.settings.path)
        self._fragment: Fragment = fragment
        self._message: Message = message
        self._actor: int = actor

    def claim(self) -> None:
        """Raises NotAllowed if another transaction has claimed the message."""
        schedule.claim(self._fragment, self._message, self)

    def check(self, now: int) -> None:
        fragment, row_id = self._fragment, self._message.row_id
        fragment.check_exists()
        if fragment.cancelling.get(row_id) is not self:
            raise MessageNotFound.numbered(
                fragment.visible_base | sequence_of(row_id),
                entity_path=fragment.settings.path,
            )

    def apply(self, duplicates: Duplicates, now: int) -> None:
        changes = self.home.changes
        schedule.cancel(self._fragment, self._message, self._actor, now, changes)

    def let_go(self) -> None:
        if self._fragment.cancelling.get(self._message.row_id) is self:
            del self._fragment.cancelling[self._message.row_id]


@final
class TransactionalSettlement(Work):
    """One message, settled by its delivery or by its token."""

    def __init__(
        self,
        fragment: Fragment,
        lock: MessageLock,
        settlement: Settlement,
        actor: int,
    ) -> None:
        super().__init__(fragment.home, fragment.settings.path)
        self._fragment: Fragment = fragment
        self._lock: MessageLock = lock
        self._settlement: Settlement = settlement
        self._actor: int = actor
        # The delivery that the commit settles; None if there is none, or it is settled.
        self._session: AmqpSession | None = None
        self._delivery_id: int = 0
        self.added_bytes = settlement.size_bytes()

    def ends(self, session: AmqpSession, delivery_id: int) -> None:
        """The commit settles this delivery."""
        self._session = session
        self._delivery_id = delivery_id

    def check(self, now: int) -> None:
        fragment = self._fragment
        fragment.check_exists()
        if not fragment.holds(self._lock, now):
            raise fragment.lock_lost()
        self._settlement.check(fragment, self._lock)

    def apply(self, duplicates: Duplicates, now: int) -> None:
        self._lock.enlisted_in = None
        changes = self.home.changes
        self._settlement.apply(self._fragment, self._lock, self._actor, now, changes)

    def committed(self) -> None:
        session, at = self._session, self._delivery_id
        if session is not None and session.unsettled.pop(at, None) is not None:
            state = STATE_OF[self._settlement.kind]
            session.send_disposition(False, at, at, True, state)

    def let_go(self) -> None:
        self._lock.enlisted_in = None
