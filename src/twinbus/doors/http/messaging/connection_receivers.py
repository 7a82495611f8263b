"""What a connection keeps for later requests: receivers, and ways to other brokers.

A receiver makes its entity read ahead, so one for each request would read the same
messages again and again. Between requests it has no credit. What other brokers have
reserved for it is held for a moment (`spread_receiver.py`); the fragments of this
broker hold nothing.
"""

from collections.abc import Callable
from typing import Final, Protocol

from twinbus.doors.http.keep_alive import KeepAlive
from twinbus.entities.entity import Entity
from twinbus.operations.received_message import ReceivedMessage
from twinbus.operations.routed_sending import RoutedSender

_KEY: Final = "messaging"

_KEPT: Final = 4
"""Of each kind for one connection. More than one entity and mode are rare."""


class KeptReceiver(Protocol):
    """Receives for several requests."""

    @property
    def entity(self) -> Entity: ...

    @property
    def is_over(self) -> bool: ...

    async def receive_one(self, wait_seconds: float) -> ReceivedMessage | None: ...

    def hurry(self) -> None: ...

    def close(self) -> None: ...


class ConnectionReceivers:
    """Those of one connection; the ones that were used last are kept."""

    def __init__(self) -> None:
        # By the caller's name, path and mode.
        self._receivers: dict[tuple[str, str, bool], KeptReceiver] = {}
        # By the caller's name and path.
        self._senders: dict[tuple[str, str], RoutedSender] = {}

    @classmethod
    def of(cls, connection: KeepAlive) -> "ConnectionReceivers":
        kept = connection.kept.get(_KEY)
        if not isinstance(kept, cls):
            kept = connection.kept[_KEY] = cls()
        return kept

    def receiver(
        self,
        key: tuple[str, str, bool],
        entity: Entity,
        make: Callable[[], KeptReceiver],
    ) -> KeptReceiver:
        found = self._receivers.pop(key, None)
        if found is not None and (found.is_over or found.entity is not entity):
            found.close()
            found = None
        self._receivers[key] = found = found or make()
        if len(self._receivers) > _KEPT:
            self._receivers.pop(next(iter(self._receivers))).close()
        return found

    def sender(
        self, key: tuple[str, str], entity: Entity, make: Callable[[], RoutedSender]
    ) -> RoutedSender:
        found = self._senders.pop(key, None)
        if found is not None and found.entity is not entity:
            found.close()
            found = None
        self._senders[key] = found = found or make()
        if len(self._senders) > _KEPT:
            self._senders.pop(next(iter(self._senders))).close()
        return found

    def close(self) -> None:
        for receiver in self._receivers.values():
            receiver.close()
        for sender in self._senders.values():
            sender.close()
        self._receivers.clear()
        self._senders.clear()
