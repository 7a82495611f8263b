"""The transfer log: takes messages for fragments whose store is away.

A message is written to the outbox of another store that serves, and acknowledged when
it is durable there. While such messages wait for a fragment, all later ones to it must
take the same way (`Home.awaited`), also when its store is back: none is overtaken.

Where several brokers share stores, a store is away if none of them serves it. Then one
certain other store keeps its messages, whichever broker they come to; so they are in
one outbox, in one order. When the store is served again they are no longer kept: its
owner waits for those that are (`detour_watch.py`).

A store that is served, but full, or whose commits fail because its disk can only be
read, is like one that is away: what was sent before is in it or in the outbox, and all
that comes later follows. Receivers go on. It gets what is kept for it as far as it has
room (`outbox_arrival.py`). What it refuses waits until commits under way there have
returned what was sent before (`detour_beginning.py`). A store whose lease ends while a
commit hangs in it is away at once. What that returns later is refused: later messages
are kept already.

A store that is away for longer than the limit gets nothing more: then the sender should
know. If the store that keeps the messages is away for longer than the limit, later ones
do not wait for it: that gives up their order, and not the entity.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

from twinbus.broker.commit_listener import CommitListener
from twinbus.broker.fragment_address import FragmentAddress, address_from, store_of
from twinbus.broker.home import ALL_FRAGMENTS, Home
from twinbus.broker.message import Message
from twinbus.broker.outbox import SENT
from twinbus.clock import Clock
from twinbus.errors import STORE_IS_FULL, FragmentUnavailable, ServerBusy
from twinbus.limits import TRANSFER_LIMIT_MS
from twinbus.links.sending import is_full, post
from twinbus.outbox.detour_beginning import DetourBeginning, DivertedSend
from twinbus.outbox.detour_watch import DetourWatch
from twinbus.outbox.foreign_entries import ForeignEntries
from twinbus.outbox.outbox_carrier import OutboxCarrier
from twinbus.outbox.remote_stores import NoRemoteStores, RemoteStores
from twinbus.owner.owners import Owners
from twinbus.owner.sharing import Sharing
from twinbus.owner.store_owner import StoreOwner


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferSettings:
    """Which messages are kept for a store that is away, and for how long it may be."""

    conventional: bool = True
    keyed: bool = False
    limit_ms: int = TRANSFER_LIMIT_MS


_OPENING_MS: Final = 10_000
"""For so long after another broker has said that it opens a store, it is believed: it
announces it within a second. The same after the start, of a store that nobody has
served since."""

DOCUMENTED_TRANSFER: Final = TransferSettings()


class TransferLog:
    """Of all stores of this process."""

    def __init__(
        self,
        owners: Owners,
        clock: Clock,
        settings: TransferSettings = DOCUMENTED_TRANSFER,
    ) -> None:
        self._owners = owners
        self._clock = clock
        self.settings = settings
        self._is_shared = owners.sharing is Sharing.SHARED
        # Of shared stores: since when nobody serves them, and when another broker said
        # that it is about to.
        self._unserved_since: dict[bytes, int] = {}
        self._opened_at: dict[bytes, int] = {}
        # Those that somebody served since this broker was started.
        self._served: set[bytes] = set()
        # By target: detours that wait for the commits of a store that is full.
        self._beginnings: dict[str, DetourBeginning] = {}
        # Targets for which messages were kept while earlier ones hung in their store.
        self._overtaken: set[str] = set()
        # Set when this process has joined a cluster.
        self.elsewhere: RemoteStores = NoRemoteStores()
        self.foreign = ForeignEntries(owners)

    def open(self) -> None:
        """The stores are open. With one store there is nothing to carry."""
        if self.has_stores():
            for owner in self._owners:
                owner.carrier = OutboxCarrier(
                    *(owner, self._owners, lambda: self.elsewhere),
                    *(self.renew, self.end_detours, DetourWatch(owner, self)),
                )
                self.renew(owner)

    def has_stores(self) -> bool:
        """There is another store that could keep messages."""
        return len(list(self._owners)) > 1

    # --- sending --------------------------------------------------------------

    def send(
        self,
        target: FragmentAddress,
        home: Home,
        messages: list[Message],
        *,
        entity_path: str,
        limit_bytes: int,
        listener: CommitListener | None,
        item: int,
        is_returned: bool = False,
    ) -> None:
        """Keep messages for a fragment of `home`. The listener gets the outcome.
        `is_returned`: their commit failed there, so nothing comes before them.

        Raises ServerBusy."""
        now = self._clock.now()
        if self._is_shared and not home.is_serving:
            self._check_unserved(home, target, now, entity_path)
        self._check_absence(home, now, entity_path)
        size_bytes = sum(len(message.raw) for message in messages)
        if home.is_serving:
            self._check_refusal(home, size_bytes, now, entity_path)
        else:
            self._check_order(home, target, entity_path, is_returned=is_returned)
        log = self._log_for(target, home, size_bytes, now, entity_path)
        log.outbox.check_diverted(target.text, size_bytes, limit_bytes, entity_path)
        send = DivertedSend(
            target=target, messages=messages, listener=listener, item=item
        )
        beginning = None if is_returned else self._beginning(target, home, log)
        home.awaited[target.generation, target.index] = log
        if beginning is not None:
            beginning.add(send)
        else:
            send.keep(log)

    def _beginning(
        self, target: FragmentAddress, home: Home, log: Home
    ) -> DetourBeginning | None:
        """What the messages must wait in, because some that were sent before may be
        returned. What is sent from now on follows them."""
        found, text = self._beginnings.get(target.text), target.text
        is_begun = (target.generation, target.index) in home.awaited
        may_return = home.is_serving and not self._is_shared and not _is_idle(home)
        if found is None and may_return and not is_begun:
            found = DetourBeginning(log, lambda: self._end_beginning(text))
            self._beginnings[text] = found
            found.note(home, 0)
            home.wake()
        return found

    def _end_beginning(self, text: str) -> None:
        del self._beginnings[text]

    def _check_refusal(
        self, home: Home, size_bytes: int, now: int, entity_path: str
    ) -> None:
        """Raises ServerBusy if a store that is served refuses messages, unless it is
        full: one that is too slow, or busy, shall get less to do."""
        is_without_room = is_full(home, size_bytes, now)
        if now < home.refuses_until and not is_without_room:
            raise ServerBusy(home.refusal, entity_path=entity_path)
        if self._is_shared and is_without_room:
            # The one store that may keep its messages can be with another broker, and
            # that one cannot tell here when all of them have arrived.
            raise ServerBusy(STORE_IS_FULL, entity_path=entity_path)

    def _check_order(
        self,
        home: Home,
        target: FragmentAddress,
        entity_path: str,
        *,
        is_returned: bool,
    ) -> None:
        """Raises ServerBusy if later messages are kept already: the lease of the store
        was over while it hung, and it has returned these only now."""
        if not is_returned and not _is_idle(home):
            self._overtaken.add(target.text)
        elif is_returned and target.text in self._overtaken:
            raise ServerBusy(entity_path=entity_path)

    def _check_absence(self, home: Home, now: int, entity_path: str) -> None:
        """Raises ServerBusy if its store has taken no messages for too long."""
        if self._is_long_away(home, now):
            raise ServerBusy.store_away(entity_path, self.settings.limit_ms)

    def _is_long_away(self, home: Home, now: int) -> bool:
        since = home.away_since
        if home.is_serving:
            since = home.refused_since
        elif self._is_shared:
            since = self._unserved_since.get(home.store_uuid, now)
        return since != 0 and now - since > self.settings.limit_ms

    def _check_unserved(
        self, home: Home, target: FragmentAddress, now: int, entity_path: str
    ) -> None:
        """Raises FragmentUnavailable if another broker serves the store, or is about
        to: it is sent to that one. After the start of this broker that cannot be told
        for a while: if all of them were started, nobody has asked what is kept."""
        uuid = home.store_uuid
        began_at = self._opened_at.get(uuid, -_OPENING_MS)
        if uuid not in self._served:
            began_at = max(began_at, self._unserved_since.get(uuid, now))
        is_opened = 0 <= now - began_at < _OPENING_MS
        if is_opened or self.elsewhere.serves(uuid):
            raise FragmentUnavailable.numbered(target.index, entity_path)

    def _log_for(
        self,
        target: FragmentAddress,
        home: Home,
        size_bytes: int,
        now: int,
        entity_path: str,
    ) -> Home:
        """The store that keeps messages for this fragment already; if there is none,
        the one whose outbox is the smallest, of those whose commits succeed."""
        log = home.awaited.get((target.generation, target.index))
        if self._is_shared:
            log = log or self.log_of(home)
        else:
            log = log or self._last_log(target)
        if log is not None:
            if log.is_serving and _has_room(log, size_bytes, now):
                return log
            raise ServerBusy(entity_path=entity_path)
        others: list[StoreOwner] = [
            owner
            for owner in self._owners.serving()
            if owner is not home and _has_room(owner, size_bytes, now)
        ]
        if not others:
            raise ServerBusy(entity_path=entity_path)
        return min(
            others,
            key=lambda owner: (owner.refused_since != 0, owner.outbox.size_bytes),
        )

    def _last_log(self, target: FragmentAddress) -> Home | None:
        """The store whose messages for this fragment are arriving. If that fails, they
        are still kept there."""
        for owner in self._owners.serving():
            if owner.outbox.diverted_count(target.text) > 0:
                return owner
        return None

    def send_through(
        self,
        target: FragmentAddress,
        messages: list[Message],
        *,
        entity_path: str,
        listener: CommitListener | None,
        item: int,
    ) -> None:
        """Bring messages to a fragment at another broker, by the outbox of a store
        here. Messages that are sent there directly may come before them. Raises
        ServerBusy."""
        size_bytes = sum(len(message.raw) for message in messages)
        now = self._clock.now()
        serving = self._owners.serving()
        logs = [owner for owner in serving if _has_room(owner, size_bytes, now)]
        if not logs:
            raise ServerBusy(entity_path=entity_path)
        log = min(logs, key=lambda owner: owner.outbox.size_bytes)
        log.outbox.check_room(size_bytes, entity_path)
        for message in messages:
            post(target, message, SENT, log)
        if listener is not None:
            listener.note(log, item)
        log.wake()

    # --- several brokers ------------------------------------------------------

    def log_of(self, home: Home) -> StoreOwner | None:
        """The store that keeps messages for this one while nobody serves it: the next
        one by UUID. All brokers agree on it."""
        others = [owner for owner in self._owners if owner is not home]
        if not others or not self._is_shared:
            return None
        following = [one for one in others if one.store_uuid > home.store_uuid]
        return min(following or others, key=lambda owner: owner.store_uuid)

    def kept_for(self, log_uuid: bytes, store_uuid: bytes) -> list[str]:
        """Another broker is about to serve a store: the fragments for which messages
        are kept here. No more are taken. Raises ServerBusy."""
        log = self._owners.find(log_uuid)
        if log is None or not log.is_serving:
            raise ServerBusy("The store is served by another broker now.")
        self._opened_at[store_uuid] = self._clock.now()
        kept = log.outbox.diverted()
        return [text for text in kept if store_of(text) == store_uuid]

    def was_served(self, home: Home) -> bool:
        """Somebody has served it since this broker was started."""
        return home.store_uuid in self._served

    async def take_in(self, owner: StoreOwner) -> None:
        """A shared store is about to be served here, or others thought that it was
        not."""
        if self._is_shared and isinstance(owner.carrier, OutboxCarrier):
            await owner.carrier.watch.begin()

    async def look_again(self) -> None:
        """Other brokers may have taken this one for dead, and have kept messages for
        stores that it serves."""
        await asyncio.gather(*(self.take_in(one) for one in self._owners.serving()))

    # --- the order of messages ------------------------------------------------

    def renew_all(self) -> None:
        """The same for all outboxes of this broker."""
        for owner in self._owners.serving():
            self.renew(owner)

    def renew(self, source: StoreOwner) -> None:
        """Find out which fragments wait for messages from this outbox."""
        for owner in self._owners:
            waits = [key for key, log in owner.awaited.items() if log is source]
            for key in waits:
                del owner.awaited[key]
        begun = [text for text, one in self._beginnings.items() if one.log is source]
        for text in [*source.outbox.diverted(), *begun]:
            target = address_from(text)
            found = self._owners.find(target.store_uuid)
            if found is not None:
                # If another outbox has later ones, these have arrived already, and only
                # their removal did not happen.
                found.awaited.setdefault((target.generation, target.index), source)

    def end_detours(self, source: StoreOwner) -> None:
        """Fragments for which nothing is left in this outbox do not wait for it."""
        begun = [text for text, one in self._beginnings.items() if one.log is source]
        left = map(address_from, [*source.outbox.diverted(), *begun])
        keys = {ALL_FRAGMENTS, *((one.generation, one.index) for one in left)}
        for owner in self._owners:
            for key, log in list(owner.awaited.items()):
                if log is source and key not in keys:
                    del owner.awaited[key]

    def tick(self, now: int) -> None:
        """Do not wait for a store that is away for too long."""
        self._forget_overtaken()
        if self._is_shared:
            self._note_unserved(now)
            for owner in self._owners.serving():
                if isinstance(owner.carrier, OutboxCarrier):
                    owner.carrier.watch.go_on()
            return
        for owner in self._owners:
            for key, log in list(owner.awaited.items()):
                # One that is only full still gives away what it keeps.
                if not log.is_serving and self._is_long_away(log, now):
                    del owner.awaited[key]

    def _forget_overtaken(self) -> None:
        """What hung in a store was answered before that is served again."""
        if self._overtaken:
            serving = {owner.store_uuid for owner in self._owners.serving()}
            self._overtaken = {
                text for text in self._overtaken if store_of(text) not in serving
            }

    def _note_unserved(self, now: int) -> None:
        for owner in self._owners:
            uuid = owner.store_uuid
            if owner.is_serving or self.elsewhere.serves(uuid):
                self._unserved_since.pop(uuid, None)
                self._served.add(uuid)
            else:
                self._unserved_since.setdefault(uuid, now)


def _is_idle(home: Home) -> bool:
    """No commit can return a message any more."""
    return home.listeners.is_empty() and not home.is_committing


def _has_room(home: Home, size_bytes: int, now: int) -> bool:
    return now >= home.refuses_until and size_bytes <= home.room_bytes
