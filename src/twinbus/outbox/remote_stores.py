"""Stores that other brokers serve, as a lane needs them."""

from dataclasses import dataclass, field
from typing import Protocol

from twinbus.broker.changes import OutboxEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedEntry:
    """An entry that its target did not take, and why."""

    entry: OutboxEntry
    reason: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What a store says of entries that were brought to it. Those that it does not
    mention are to be brought again."""

    # It has these, now or since an earlier time.
    taken: list[OutboxEntry]
    # These directly follow them.
    refused: list[RefusedEntry]
    # Fragments that were full before these came: transactions should send no more.
    full: list[str] = field(default_factory=list)


class RemoteStores(Protocol):
    """Reached through the brokers that serve them."""

    def serves(self, store_uuid: bytes) -> bool:
        """Another broker serves the store now."""
        ...

    async def append(
        self,
        store_uuid: bytes,
        source_uuid: bytes,
        epoch: int,
        entries: list[OutboxEntry],
    ) -> Receipt:
        """Bring entries of one source to the owner of their store; `epoch` is that of
        the source. Raises ServiceBusError; they may have arrived all the same."""
        ...

    async def diverted(self, log_uuid: bytes, store_uuid: bytes) -> list[str]:
        """The fragments of a store for which the outbox of another one, `log_uuid`,
        keeps diverted messages. It takes no more from now on. Raises
        ServiceBusError."""
        ...


class NoRemoteStores:
    """There is one broker."""

    def serves(self, store_uuid: bytes) -> bool:
        return False

    async def append(
        self,
        store_uuid: bytes,
        source_uuid: bytes,
        epoch: int,
        entries: list[OutboxEntry],
    ) -> Receipt:
        raise AssertionError("there is no other broker")

    async def diverted(self, log_uuid: bytes, store_uuid: bytes) -> list[str]:
        raise AssertionError("there is no other broker")
