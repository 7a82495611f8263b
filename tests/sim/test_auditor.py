"""The auditor finds errors: each test plants one, and some world must find it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from simulator import life, run_world
from simulator.sighting import Violation
from twinbus.entities import store_entries
from twinbus.entities.strangers import Strangers
from twinbus.owner.store_owner import StoreOwner
from twinbus.store.base import CommitFailed
from twinbus.store.catalog import TOMBSTONE, Unfinished
from twinbus.store.memory_catalog import MemoryCatalog

WORLDS = 150


class Planted:
    """Stands in front of a store and is honest; mistakes override one method."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.commits = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def commit(self, changes: Any) -> None:
        self.commits += 1
        self.spoil(changes)
        await self.store.commit(changes)

    def spoil(self, changes: Any) -> None:
        """Change what is about to be committed."""


class LosesOneMessage(Planted):
    def spoil(self, changes: Any) -> None:
        if self.commits > 3 and len(changes.active_added) > 1:
            changes.active_added.pop()


class DropsCompletions(Planted):
    def spoil(self, changes: Any) -> None:
        if self.commits % 3 == 0:
            changes.active_removed.clear()


class MiscountsActive(Planted):
    def spoil(self, changes: Any) -> None:
        if self.commits > 3 and changes.records:
            record = changes.records[0]
            wrong = replace(record, active_count=record.active_count + 1)
            changes.records[0] = wrong


class ForgetsDeliveryCounts(Planted):
    def spoil(self, changes: Any) -> None:
        changes.active_changed.clear()


class ForgetsCancellations(Planted):
    def spoil(self, changes: Any) -> None:
        changes.scheduled_removed.clear()


class ForgetsDeadLetterReasons(Planted):
    def spoil(self, changes: Any) -> None:
        for message in changes.active_added:
            if message.annex is not None:
                message.annex = replace(message.annex, dead_letter_reason="Wrong")


class LosesDeferred(Planted):
    async def read_deferred(self, row_ids: Any) -> Any:
        return []


class ActivatesEarly(Planted):
    async def due(self, now: int, limit: int, without: Any = ()) -> Any:
        return await self.store.due(now + 3_600_000, limit, without)

    async def next_scheduled_at(self, without: Any = ()) -> int:
        return 1 if await self.store.next_scheduled_at(without) else 0


class ReadsTwice(Planted):
    async def read_active(self, *where: Any) -> Any:
        messages = await self.store.read_active(*where)
        return messages[:1] + messages


class HidesFromPeek(Planted):
    async def browse(self, *where: Any) -> Any:
        return (await self.store.browse(*where))[1:]


class RepliesBeforeTheCommit(Planted):
    """Keeps a commit back until the next one: a reply that overtakes durability."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.kept_back: Any = None

    async def commit(self, changes: Any) -> None:
        if self.kept_back is not None:
            await self.store.commit(self.kept_back)
        self.kept_back = changes


class SaysThatACommitFailed(Planted):
    """A lie: it happened."""

    async def commit(self, changes: Any) -> None:
        await super().commit(changes)
        if self.commits % 7 == 0:
            raise CommitFailed("planted")


class InvertsSessions(Planted):
    async def read_session(self, *where: Any) -> Any:
        return (await self.store.read_session(*where))[::-1]


class ForgetsSessionStates(Planted):
    def spoil(self, changes: Any) -> None:
        changes.session_states.clear()


class ForgetsIds(Planted):
    def spoil(self, changes: Any) -> None:
        changes.ledger_ids.clear()


class HasSeenEverything(Planted):
    async def seen(self, number: int, unique_ids: Any, now: int) -> Any:
        return set(unique_ids)


class ForgetsRules(Planted):
    def spoil(self, changes: Any) -> None:
        if self.commits > 5:
            changes.rules_put.clear()


class KeepsBodies(Planted):
    def spoil(self, changes: Any) -> None:
        changes.bodies_released.clear()


class LosesWhatMoves(Planted):
    def spoil(self, changes: Any) -> None:
        if changes.active_removed:
            changes.active_added.clear()


class LeavesWhatMoves(Planted):
    def spoil(self, changes: Any) -> None:
        if changes.active_added:
            changes.active_removed.clear()


class DropsTheNeighbour(Planted):
    """Number 0: it was there first."""

    def spoil(self, changes: Any) -> None:
        if self.commits == 3:
            changes.dropped.append(0)


class ForgetsEntities(Planted):
    def spoil(self, changes: Any) -> None:
        if self.commits > 3:
            changes.entities_put.clear()


class KeepsEntities(Planted):
    def spoil(self, changes: Any) -> None:
        changes.entities_removed.clear()


# The seeds of worlds that showed a mistake when its test was written: one shows most.
SHOWS_MOST = 3
SHOWN_BY = {
    ForgetsDeliveryCounts: 67,
    ForgetsEntities: 5,
    ForgetsIds: 5,
    ForgetsRules: 0,
    InvertsSessions: 5,
    KeepsBodies: 5,
    LeavesWhatMoves: 1,
    LosesDeferred: 101,
    LosesWhatMoves: 1,
    ReadsTwice: 32,
}
CATALOG_NOTES_NOTHING = 12
CALLS_OVERLAP = 34


def violation_of(
    plant: Callable[[Any], Any], kind: str = "queues", first: int = SHOWS_MOST
) -> BaseException | None:
    for seed in (SHOWN_BY.get(plant, first), *range(WORLDS)):
        violation = run_world(seed, kind=kind, plant=plant).violation
        if violation is not None:
            return violation
    return None


@pytest.mark.parametrize(
    "plant",
    [
        LosesOneMessage,
        DropsCompletions,
        MiscountsActive,
        ForgetsDeliveryCounts,
        ForgetsCancellations,
        ForgetsDeadLetterReasons,
        LosesDeferred,
        ActivatesEarly,
        ReadsTwice,
        HidesFromPeek,
        RepliesBeforeTheCommit,
        SaysThatACommitFailed,
        DropsTheNeighbour,
        ForgetsEntities,
        KeepsEntities,
    ],
)
def test_a_planted_mistake_is_found(plant: Callable[[Any], Any]) -> None:
    assert isinstance(violation_of(plant), Violation)


@pytest.mark.parametrize(
    ("kind", "plant"),
    [
        ("sessions", InvertsSessions),
        ("sessions", ForgetsSessionStates),
        ("duplicates", ForgetsIds),
        ("duplicates", HasSeenEverything),
        ("topics", ForgetsRules),
        ("topics", KeepsBodies),
        ("topics", LosesOneMessage),
        ("forwarding", LosesWhatMoves),
        ("forwarding", LeavesWhatMoves),
    ],
)
def test_a_mistake_of_its_kind_is_found(kind: str, plant: Callable[[Any], Any]) -> None:
    assert isinstance(violation_of(plant, kind), Violation)


def _all_are_leftovers(table: Any, *others: Any, **names: Any) -> Strangers:
    """What the bus once did: what no entity here has is nobody's."""
    noted = [
        Unfinished(
            kind=TOMBSTONE,
            namespace=min(names["served"]),
            path="",
            generation=generation,
            store_uuid=names["store_uuid"],
            noted_at=0,
        )
        for generation in table.orphans()
    ]
    return Strangers(leftovers=noted)


def test_a_bus_that_drops_what_nobody_named_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store_entries, "find_strangers", _all_are_leftovers)
    found = violation_of(Planted)
    assert isinstance(found, Violation)
    assert "another namespace" in str(found)


def test_a_catalog_that_notes_nothing_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A crash amid a creation or a removal then leaves what nobody can explain."""
    monkeypatch.setattr(MemoryCatalog, "_note", lambda self, noted: None)
    found = violation_of(Planted, first=CATALOG_NOTES_NOTHING)
    assert isinstance(found, Violation)
    assert "does not start" in str(found)


class NoMutex:
    """Lets everybody in."""

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, *error: object) -> None:
        pass


class ImpatientOwner(StoreOwner):
    """Its loop and requests read the store at the same time."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.reading = NoMutex()  # type: ignore[assignment]


def test_two_store_calls_at_once_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life, "StoreOwner", ImpatientOwner)
    assert "overlap" in str(violation_of(Planted, first=CALLS_OVERLAP))


def test_an_honest_store_passes() -> None:
    """Worlds that show mistakes have none. `test_worlds.py` has the other seeds."""
    shown_by = {SHOWS_MOST, CATALOG_NOTES_NOTHING, CALLS_OVERLAP, *SHOWN_BY.values()}
    for seed in shown_by:
        assert run_world(seed, plant=Planted).violation is None
