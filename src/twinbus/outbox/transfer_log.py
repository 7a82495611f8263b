"""The transfer log: takes messages for fragments whose store is away.

A message is written to the outbox of another store that serves, and acknowledged when
it is durable there. While such messages wait for a fragment, all later ones to it must
take the same way (`Home.awaited`), also when its store is back: none is overtaken.

A store that is away for longer than the limit gets nothing more: then the sender should
know. If the store that keeps the messages is away for longer than the limit, later ones
do not wait for it: that gives up their order, and not the entity.
"""

from dataclasses import dataclass, replace
from typing import Final

from twinbus.broker.commit_listener import CommitListener
from twinbus.broker.fragment_address import FragmentAddress, address_from
from twinbus.broker.home import Home
from twinbus.broker.message import Message
from twinbus.broker.outbox import DIVERTED
from twinbus.clock import Clock
from twinbus.errors import ServerBusy
from twinbus.limits import TRANSFER_LIMIT_MS
from twinbus.links.sending import post
from twinbus.outbox.outbox_carrier import OutboxCarrier
from twinbus.owner.owners import Owners
from twinbus.owner.sharing import Sharing
from twinbus.owner.store_owner import StoreOwner


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferSettings:
    """Which messages are kept for a store that is away, and for how long it may be."""

    conventional: bool = True
    keyed: bool = False
    limit_ms: int = TRANSFER_LIMIT_MS


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
        if owners.sharing is Sharing.SHARED:
            # What is away here is served by another broker, or will be soon.
            settings = replace(settings, conventional=False, keyed=False)
        self.settings = settings

    def open(self) -> None:
        """The stores are open. With one store there is nothing to carry."""
        if self.has_stores():
            for owner in self._owners:
                owner.carrier = OutboxCarrier(owner, self._owners, self.renew)
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
    ) -> None:
        """Keep messages for a fragment of `home`. The listener gets the outcome.

        Raises ServerBusy."""
        now = self._clock.now()
        self._check_absence(home, now, entity_path)
        if home.is_serving and now < home.refuses_until:
            # It is not away, but full: messages of others would fill the next one.
            raise ServerBusy(home.refusal, entity_path=entity_path)
        size_bytes = sum(len(message.raw) for message in messages)
        log = self._log_for(target, home, size_bytes, now, entity_path)
        log.outbox.check_diverted(target.text, size_bytes, limit_bytes, entity_path)
        for message in messages:
            post(target, message, DIVERTED, log)
        home.awaited[target.generation, target.index] = log
        if listener is not None:
            listener.note(log, item)
        log.wake()

    def _check_absence(self, home: Home, now: int, entity_path: str) -> None:
        """Raises ServerBusy if its store is away for too long."""
        if self._is_long_away(home, now):
            raise ServerBusy.store_away(entity_path, self.settings.limit_ms)

    def _is_long_away(self, home: Home, now: int) -> bool:
        return not home.is_serving and now - home.away_since > self.settings.limit_ms

    def _log_for(
        self,
        target: FragmentAddress,
        home: Home,
        size_bytes: int,
        now: int,
        entity_path: str,
    ) -> Home:
        """The store that keeps messages for this fragment already; if there is none,
        the one whose outbox is the smallest."""
        log = home.awaited.get((target.generation, target.index))
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
        return min(others, key=lambda owner: owner.outbox.size_bytes)

    # --- the order of messages ------------------------------------------------

    def renew(self, source: StoreOwner) -> None:
        """Find out which fragments wait for messages from this outbox."""
        for owner in self._owners:
            waits = [key for key, log in owner.awaited.items() if log is source]
            for key in waits:
                del owner.awaited[key]
        for text in source.outbox.diverted():
            target = address_from(text)
            found = self._owners.find(target.store_uuid)
            if found is not None:
                found.awaited[target.generation, target.index] = source

    def tick(self, now: int) -> None:
        """Do not wait for a store that is away for too long."""
        for owner in self._owners:
            for key, log in list(owner.awaited.items()):
                if self._is_long_away(log, now):
                    del owner.awaited[key]


def _has_room(home: Home, size_bytes: int, now: int) -> bool:
    return now >= home.refuses_until and size_bytes <= home.room_bytes
