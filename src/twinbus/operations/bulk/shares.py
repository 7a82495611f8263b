"""What one broker does for a bulk request: its share.

The fragments that a request names may be at several brokers. Each does the share that
concerns its own (`local_share.py`); the broker that was asked puts the shares together
(`bulk_entities.py`). Steps that must be the same everywhere come in two: check at all,
then change at all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from twinbus.broker.home import Home
from twinbus.broker.outline import Outlines
from twinbus.operations.bulk.requests import (
    Appended,
    EntityRuntime,
    LeaseGrant,
    LeaseRequest,
    Settled,
    SettleRequest,
)
from twinbus.operations.caller import Caller


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentsOf:
    """Fragments of an entity, by index; None: all."""

    path: str
    indexes: Sequence[int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseCheck:
    """What a broker says before a lease is taken or renewed."""

    # The lowest epoch that it can give.
    next_epoch: int
    # The reader had the last lease: it may have a plan.
    is_own: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldRequest:
    """A fragment to plan: where to begin, and optionally where to end."""

    path: str
    index: int
    generation: str
    epoch: str | None
    # Numbers that clients see. The end is excluded.
    first: int | None
    end: int | None
    first_time: int | None = None
    end_time: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Tells whether a fragment is still held for this plan: no other owner of its
    store, no failed commit, and no later plan."""

    store_epoch: int
    restore_count: int
    plan_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldFragment:
    """A fragment whose messages stay while they are planned. Sequence numbers are its
    own."""

    # As its entity is called.
    path: str
    first: int
    last: int
    # Upper bound of the messages to plan.
    backlog: int
    hold: Hold
    # The plan before this one, from and through; None without a lease.
    before: tuple[int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldFragments:
    """What a broker holds for a plan."""

    # All messages that were enqueued there before this instant can be read.
    horizon: int
    fragments: Sequence[HeldFragment]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanNote:
    """What is planned in a fragment that is held; its own sequence numbers."""

    path: str
    index: int
    epoch: str
    first: int
    through: int
    hold: Hold


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlinesRequest:
    """The next messages of a fragment; its own sequence numbers."""

    path: str
    index: int
    first: int
    last: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SomeOutlines:
    """Messages of a fragment; `is_last`: there are no others."""

    outlines: Outlines
    is_last: bool


class BrokerShare(Protocol):
    """A broker. What it refuses, it raises as ServiceBusError."""

    async def runtime(
        self, caller: Caller, wanted: Sequence[FragmentsOf]
    ) -> list[EntityRuntime | None]:
        """None for an entity that does not exist or cannot be read."""
        ...

    async def check_leases(
        self, caller: Caller, reader: str, requests: Sequence[LeaseRequest]
    ) -> list[LeaseCheck]:
        """Whether these leases can be taken or renewed."""
        ...

    async def lease(
        self,
        caller: Caller,
        reader: str,
        duration_ms: int,
        requests: Sequence[LeaseRequest],
    ) -> list[LeaseGrant]:
        """Take or renew all of them, or none."""
        ...

    async def release(
        self, caller: Caller, reader: str, requests: Sequence[LeaseRequest]
    ) -> list[bool]:
        """Release those that are held, and say which were."""
        ...

    async def hold(
        self, caller: Caller, reader: str, requests: Sequence[HoldRequest]
    ) -> HeldFragments:
        """Let nothing expire while it is planned: all of them or none."""
        ...

    async def outlines(self, caller: Caller, request: OutlinesRequest) -> SomeOutlines:
        """Read on."""
        ...

    async def note_plans(
        self, caller: Caller, reader: str, notes: Sequence[PlanNote]
    ) -> None:
        """Note all these plans at their leases, durably, or none."""
        ...

    async def restore_plans(
        self, caller: Caller, reader: str, notes: Sequence[PlanNote]
    ) -> None:
        """The plan failed: note the ones before, where nothing else came between."""
        ...

    async def check_settlements(
        self, caller: Caller, reader: str, requests: Sequence[SettleRequest]
    ) -> None:
        """Whether all these can be settled."""
        ...

    async def settle(
        self, caller: Caller, reader: str, requests: Sequence[SettleRequest]
    ) -> list[Settled]:
        """Check all, then settle one after the other."""
        ...

    async def append(
        self, caller: Caller, entities: Sequence[str], messages: Sequence[bytes]
    ) -> Appended:
        """Send rows; those with a key to the fragment of their key."""
        ...


class OtherShares(Protocol):
    """The other brokers."""

    def address_of(self, home: Home) -> str | None:
        """The broker that serves this store, if it is another one."""
        ...

    def at(self, address: str) -> BrokerShare: ...


class NoOtherShares:
    """There is one broker."""

    def address_of(self, home: Home) -> str | None:
        return None

    def at(self, address: str) -> BrokerShare:
        raise AssertionError("there is no other broker")
