"""Auto-forwarding: a receiver inside the bus that sends messages on to another entity.

It takes ready messages of its source like any receiver, and puts them into the target
in the same change set: a message is always in exactly one of them. If the target is in
another store, the change set puts them into the outbox. The key of a message decides
about the fragment of a partitioned target.

A message that the target refuses becomes a dead letter of the source. A source that is
a dead-letter queue keeps it instead, and tries again after a while; without the delay,
a message that is always refused would be tried without pause.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final, final

from twinbus.broker import operation_log
from twinbus.broker.admission import Admission, Duplicates
from twinbus.broker.changes import ChangeSet
from twinbus.broker.dead_letter import FORWARDING_FAILED, SESSION_ID_IS_NULL
from twinbus.broker.fragment import Fragment
from twinbus.broker.message import LEAVING, LOCKED, NO_ANNEX, Message, uid_of
from twinbus.broker.message_lock import MessageLock
from twinbus.broker.outbox import FORWARDED, origin_of
from twinbus.broker.receiver import Receiver
from twinbus.broker.row_id import sequence_of
from twinbus.broker.window import Window
from twinbus.encoding.envelope import encode_envelope
from twinbus.encoding.identity import duplicate_key
from twinbus.encoding.incoming import read_message
from twinbus.encoding.layout import IDENTIFIED
from twinbus.errors import FragmentUnavailable, ServiceBusError
from twinbus.fragments.destination import Destination
from twinbus.fragments.routing import Routing
from twinbus.limits import (
    FORWARDING_HOPS,
    PROPERTIES_BYTES,
    TRANSFER_HEADROOM_BYTES,
)
from twinbus.links.duplicate_detection import finds_duplicates

_PORTION: Final = 1_000
_RETRY_MS: Final = 5_000
"""How long a dead-letter queue waits before it tries again."""

_TOO_MANY_HOPS: Final = "MaxTransferHopCountExceeded"
_REFUSED: Final = FORWARDING_FAILED


@final
class Forwarder(Receiver):
    """Moves the messages of one fragment to another entity."""

    def __init__(
        self,
        source: Fragment,
        find_target: Callable[[], Routing],
        actor: int,
    ) -> None:
        super().__init__(actor, False)
        self._source: Fragment = source
        # Raises ServiceBusError if the target does not exist, or accepts nothing now.
        self._find_target: Callable[[], Routing] = find_target
        self.forwards = True
        # Messages that stay here for a while, the window they came from, and when to
        # try again: those that the target refused, if this is a dead-letter queue, and
        # those for which no fragment of the target could be found.
        self._kept: list[Message] = []
        self._kept_from: Window = source.window
        self._retry_at: int = 0
        self._is_stopped: bool = False

    def capacity(self) -> int:
        if self._source.home.outbox.is_full() and self._crosses_stores():
            return 0
        if not self._source.settings.is_dead_letter_queue:
            # Later ones must not come before those that are kept.
            return 0 if self._kept else _PORTION
        return _PORTION - len(self._kept) if self._is_target_open() else 0

    def _crosses_stores(self) -> bool:
        try:
            targets = self._find_target().destinations()
        except ServiceBusError:
            return False
        return any(one.home is not self._source.home for one in targets)

    def _is_target_open(self) -> bool:
        try:
            for target in self._find_target().destinations():
                target.check_quota(0)
        except ServiceBusError:
            return False
        return True

    def forward(self, messages: list[Message], now: int, changes: ChangeSet) -> None:
        try:
            target = self._find_target()
        except ServiceBusError as error:
            for message in messages:
                self._fail(message, _REFUSED, error.text, now, changes)
            return
        for message in messages:
            self._forward(message, target, now, changes)

    def _forward(
        self, message: Message, target: Routing, now: int, changes: ChangeSet
    ) -> None:
        copy = self._copy(message)
        annex = copy.annex
        if annex is not None and annex.forwarded_count > FORWARDING_HOPS:
            text = f"The message was forwarded more than {FORWARDING_HOPS} times."
            self._fail(message, _TOO_MANY_HOPS, text, now, changes)
            return
        if self._kept and not self._source.settings.is_dead_letter_queue:
            self._keep(message, now)
            return
        try:
            destination = target.destination(copy)
        except FragmentUnavailable:
            self._keep(message, now)
            return
        self._forward_to(message, copy, destination, now, changes)

    def _forward_to(
        self,
        message: Message,
        copy: Message,
        target: Destination,
        now: int,
        changes: ChangeSet,
    ) -> None:
        here = target.fragment if target.home is self._source.home else None
        if here is not None and finds_duplicates(here):
            message.place = LOCKED
            here.home.admit(Forwarding(self, message, copy, target, here))
            return
        if not self.may_move(message, copy, target, now, changes):
            return
        if here is not None:
            self.move(message, copy, here, now, changes)
        else:
            self._hand_over(message, copy, target, now, changes)

    def _hand_over(
        self,
        message: Message,
        copy: Message,
        target: Destination,
        now: int,
        changes: ChangeSet,
    ) -> None:
        """Move the message to the outbox, for a target in another store."""
        source = self._source
        detail = changes.log.destination(target.settings().path)
        changes.log.record(operation_log.FORWARD, self.actor, message, now, detail)
        source.forget(message, changes)
        origin = origin_of(FORWARDED, source)
        outbox = source.home.outbox
        outbox.add(target.address(), encode_envelope(copy), origin, changes)

    def may_move(
        self,
        message: Message,
        copy: Message,
        target: Destination,
        now: int,
        changes: ChangeSet,
    ) -> bool:
        """False if the target refuses the message; then it is dead-lettered here."""
        settings = target.settings()
        if settings.requires_session and copy.session_id is None:
            text = f"'{settings.path}' requires sessions: it accepts no "
            text += "message without a session id."
            self._fail(message, SESSION_ID_IS_NULL, text, now, changes)
            return False
        try:
            target.check_quota(len(copy.raw))
        except ServiceBusError as error:
            self._fail(message, _REFUSED, error.text, now, changes)
            return False
        return True

    def move(
        self,
        message: Message,
        copy: Message,
        target: Fragment,
        now: int,
        changes: ChangeSet,
    ) -> None:
        """Move the message in one change set."""
        detail = changes.log.destination(target.settings.path)
        changes.log.record(operation_log.FORWARD, self.actor, message, now, detail)
        self._source.forget(message, changes)
        target.adopt(copy, now, changes)

    def drop(self, message: Message, now: int, changes: ChangeSet) -> None:
        """Remove a message that the target has had already."""
        changes.log.record(operation_log.DUPLICATE, self.actor, message, now)
        self._source.forget(message, changes)

    def window(self) -> Window:
        """The current window of the source; a restored source has a new one."""
        return self._source.window

    def _copy(self, message: Message) -> Message:
        """A copy as it was sent; the target sets a new time to live."""
        # The message may have used the headroom to get in here.
        limit = PROPERTIES_BYTES + TRANSFER_HEADROOM_BYTES
        copy = read_message(message.raw, message.layout & IDENTIFIED, limit)
        copy.scheduled_at = 0
        copy.uid = uid_of(message, self._source.home.store_uuid)
        annex = message.annex or NO_ANNEX
        first = annex.enqueued_sequence_number or sequence_of(message.body_id)
        copy.annex = replace(
            annex,
            forwarded_count=annex.forwarded_count + 1,
            enqueued_sequence_number=first or self._source.sequence_number(message),
        )
        return copy

    def _fail(
        self, message: Message, reason: str, text: str, now: int, changes: ChangeSet
    ) -> None:
        source = self._source
        if source.settings.is_dead_letter_queue:
            self._keep(message, now)
        else:
            source.move_to_dead_letters(message, reason, text, now, changes)

    def _keep(self, message: Message, now: int) -> None:
        """The message stays in its queue, and is set aside for a while."""
        window = self._source.window
        if self._kept_from is not window:
            self._kept, self._kept_from = [], window
        if not self._kept:
            self._retry_at = now + _RETRY_MS
        message.place = LOCKED
        self._kept.append(message)
        if self._is_stopped:
            # The forwarder was stopped meanwhile, so nothing would try again.
            self.give_back()

    def retry(self, now: int) -> None:
        """Try refused messages again if enough time has passed."""
        # A clock that was set back must not delay this for long.
        if not 0 < self._retry_at - now <= _RETRY_MS:
            self.give_back()

    def stop(self) -> None:
        """Stop forwarding; messages that wait for a look-up still move."""
        self._is_stopped = True
        self.give_back()

    def give_back(self) -> None:
        """Make refused messages ready again; nothing durable changes."""
        kept, self._kept = self._kept, []
        # If the source has a new window, the old one is void with its messages.
        if self._kept_from is self._source.window:
            for message in kept:
                self._kept_from.give_back(message)

    def deliver_locked(self, locks: list[MessageLock]) -> None:
        raise AssertionError("a forwarder does not lock messages")

    def deliver_removed(self, messages: list[Message]) -> None:
        raise AssertionError("a forwarder gets no promised messages")

    def served(self) -> None:
        pass

    def session_lost(self) -> None:
        raise AssertionError("an entity with sessions does not forward")


@final
class Forwarding(Admission):
    """A message to forward to an entity that detects duplicates."""

    def __init__(
        self,
        forwarder: Forwarder,
        message: Message,
        copy: Message,
        destination: Destination,
        target: Fragment,
    ) -> None:
        super().__init__()
        self._forwarder: Forwarder = forwarder
        self._message: Message = message
        self._copy: Message = copy
        self._destination: Destination = destination
        self._target: Fragment = target
        self._window: Window = forwarder.window()
        self._unique_id: bytes | None = duplicate_key(copy)
        if self._unique_id is not None:
            self.ask(target, self._unique_id)

    def apply(self, duplicates: Duplicates, now: int) -> None:
        forwarder, message = self._forwarder, self._message
        changes = self._target.home.changes
        if forwarder.window() is not self._window:
            return  # the source was deleted, or will forward this again
        message.place = LEAVING
        copy, target, unique_id = self._copy, self._target, self._unique_id
        if not forwarder.may_move(message, copy, self._destination, now, changes):
            return
        window_ms = target.settings.duplicate_window_ms
        if unique_id is None or duplicates.is_new(
            target, unique_id, window_ms, now, changes
        ):
            forwarder.move(message, copy, target, now, changes)
        else:
            forwarder.drop(message, now, changes)
