"""How a worker processes a backlog, whatever its entities do."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinbus.pairing.events import PairEvent
from twinbus.pairing.failures import FailureKind
from twinbus.pairing.syphon.errors import PrimaryAway
from twinbus.pairing.syphon.ports import BacklogMessage, Restored, RestoreRefusal
from twinbus.pairing.syphon.restorer import Restorer
from twinbus.pairing.syphon.settings import SyphonSettings
from twinbus.pairing.syphon.worker import Worker
from twinbus.testing.clock import ManualClock

from .backlog import ListOutlet, ListSource, diverted

SETTINGS = SyphonSettings(batch_count=4)
ROUNDS = 300
PARKING = (
    FailureKind.SERVICE,
    FailureKind.DISABLED,
    FailureKind.QUOTA,
    FailureKind.NOT_FOUND,
    FailureKind.BUSY,
    FailureKind.STORE,
    FailureKind.AUTHORIZATION,
)


class World:
    """One worker between a list and a list."""

    def __init__(self, settings: SyphonSettings = SETTINGS) -> None:
        self.clock = ManualClock(0)
        self.source = ListSource(self.clock)
        self.outlet = ListOutlet(self.clock)
        self.events: list[PairEvent] = []
        self.restorer: Restorer[BacklogMessage] = Restorer(
            self.outlet, settings, self.clock, self.events.append
        )
        self.worker = Worker(self.source, self.restorer)

    def put(self, *paths: str) -> None:
        start = len(self.source.active) + 1
        self.source.active += [
            diverted(number, path) for number, path in enumerate(paths, start)
        ]

    async def rounds(self, count: int) -> None:
        for _ in range(count):
            await self.worker._round()

    async def until_empty(self) -> None:
        for _ in range(ROUNDS):
            await self.worker._round()
            if self.source.is_empty:
                return
        raise AssertionError(f"still there: {self.source}")


async def test_an_idle_queue_is_asked_four_times_an_hour() -> None:
    world = World()
    await world.rounds(40)
    assert world.clock.monotonic() == 10 * 3_600_000
    assert world.restorer.tally.receives == 40


async def test_a_parked_entity_is_looked_at_in_time_however_idle_the_queue() -> None:
    world = World()
    world.outlet.refuse = lambda path, now: (
        RestoreRefusal(FailureKind.DISABLED, "") if now < 100_000 else None
    )
    world.put("a")
    await world.until_empty()
    # The first attempt, and one after 1, 2, 4, 8, 16, 32 and 60 seconds.
    assert world.outlet.attempts == 8
    assert world.outlet.accepted == {"a": [1]}


async def test_poison_holds_up_nothing_behind_it() -> None:
    world = World()
    refused = iter([None, RestoreRefusal(FailureKind.TOO_LARGE, "too large"), None])
    world.outlet.refuse = lambda path, now: next(refused)
    world.put("a", "a", "a")
    await world.until_empty()
    assert world.outlet.accepted == {"a": [1, 3]}
    assert world.source.dead == [(2, "MessageSizeExceeded")]


async def test_a_missing_entity_gets_its_grace_and_no_more() -> None:
    world = World(replace(SETTINGS, missing_entity_grace_ms=5_000))
    world.outlet.refuse = lambda path, now: RestoreRefusal(
        FailureKind.NOT_FOUND, "none"
    )
    world.put(*"aaaaaaa")
    await world.until_empty()
    assert world.clock.monotonic() >= 5_000
    reason = "MessagingEntityNotFound"
    assert sorted(world.source.dead) == [(number, reason) for number in range(1, 8)]


async def test_an_away_primary_gets_its_backlog_back_untouched() -> None:
    world = World(replace(SETTINGS, until_empty=True))
    world.outlet.is_up = lambda now: False
    world.outlet.refuse = lambda path, now: RestoreRefusal(FailureKind.TIMEOUT, "")
    world.put("a", "b")
    with pytest.raises(PrimaryAway):
        await world.worker.run()
    await world.restorer.watch.close()
    assert [one.sequence_number for one in world.source.active] == [1, 2]
    assert world.restorer.tally.parked == 0


@given(
    st.lists(st.sampled_from("abc"), max_size=40),
    st.dictionaries(
        st.sampled_from("abc"),
        st.lists(
            st.tuples(
                st.integers(0, 200_000),
                st.integers(1, 100_000),
                st.sampled_from(PARKING),
            ),
            max_size=3,
        ),
    ),
)
async def test_nothing_is_lost_and_entities_keep_their_order(
    paths: list[str], troubles: dict[str, list[tuple[int, int, FailureKind]]]
) -> None:
    """Whatever entities refuse for how long, all messages come back once, in order."""

    def refuse(path: str, now: int) -> RestoreRefusal | None:
        for start, length, kind in troubles.get(path, ()):
            if start <= now < start + length:
                return RestoreRefusal(kind, "")
        return None

    world = World()
    world.outlet.refuse = refuse
    world.put(*paths)
    await world.until_empty()
    expected = {
        path: [number for number, one in enumerate(paths, 1) if one == path]
        for path in set(paths)
    }
    assert world.outlet.accepted == expected
    assert world.source.dead == []


@given(st.lists(st.sampled_from("ab"), min_size=1, max_size=30))
async def test_a_successor_finds_what_its_predecessor_deferred(
    paths: list[str],
) -> None:
    world = World()
    world.outlet.refuse = lambda path, now: (
        RestoreRefusal(FailureKind.DISABLED, "") if path == "a" else None
    )
    world.put(*paths)
    await world.rounds(len(paths))
    assert len(world.source.deferred) == paths.count("a")
    world.outlet.refuse = lambda path, now: None
    world.worker = Worker(
        world.source,
        Restorer(world.outlet, SETTINGS, world.clock, world.events.append),
    )
    if not world.source.is_empty:
        await world.until_empty()
    accepted = world.outlet.accepted.get("a", [])
    assert accepted == [number for number, one in enumerate(paths, 1) if one == "a"]


async def test_nothing_overtakes_what_somebody_who_is_gone_has_locked() -> None:
    world = World(replace(SETTINGS, keeps_order=True, first_probe_ms=1))
    world.put("a", "a", "a", "b")
    forgotten = await world.source.receive(2, 0)
    await world.rounds(3)
    assert world.outlet.accepted == {}
    await world.source.abandon(forgotten)
    await world.until_empty()
    assert world.outlet.accepted == {"a": [1, 2, 3], "b": [4]}


def in_fragment(index: int, number: int) -> int:
    return (index << 48) + number


async def test_order_is_waited_for_in_each_fragment() -> None:
    """Messages of fragment 0 are no older ones of fragment 1."""
    world = World(replace(SETTINGS, keeps_order=True, first_probe_ms=1))
    numbers = [in_fragment(1, 1), in_fragment(1, 2), in_fragment(1, 3), 1, 2]
    world.source.active = [diverted(number, "a") for number in numbers]
    [forgotten] = await world.source.receive(1, 0)
    # Only the other fragment has messages now.
    held, world.source.active = world.source.active[:2], world.source.active[2:]
    await world.rounds(1)
    assert world.outlet.accepted == {"a": [1, 2]}
    world.source.active = held
    await world.rounds(3)
    assert world.outlet.accepted == {"a": [1, 2]}
    await world.source.abandon([forgotten])
    await world.until_empty()
    assert world.outlet.accepted["a"][2:] == numbers[:3]


async def test_deferred_messages_are_found_in_each_fragment() -> None:
    """Many that are not deferred end the search in their own fragment only."""
    world = World(replace(SETTINGS, batch_count=1))
    world.source.active = [diverted(number, "b") for number in range(1, 2_600)]
    left = diverted(in_fragment(3, 7), "a")
    left.is_deferred = True
    world.source.deferred[left.sequence_number] = left
    await world.rounds(1)
    assert world.outlet.accepted == {"a": [left.sequence_number], "b": [1]}


async def test_order_is_not_waited_for_unless_so_asked() -> None:
    world = World()
    world.put("a", "a", "a")
    await world.source.receive(2, 0)
    await world.rounds(1)
    assert world.outlet.accepted == {"a": [3]}


class SlowOutlet(ListOutlet):
    """Notes how many entities are tried at the same time."""

    trying = 0
    most = 0

    async def restore(
        self, path: str, messages: Sequence[BacklogMessage], timeout_seconds: float
    ) -> Restored:
        self.trying += 1
        self.most = max(self.most, self.trying)
        for _ in range(10):
            await asyncio.sleep(0)
        self.trying -= 1
        return await super().restore(path, messages, timeout_seconds)


async def test_closed_entities_are_tried_side_by_side() -> None:
    world = World()
    outlet = SlowOutlet(world.clock)
    world.restorer = Restorer(outlet, SETTINGS, world.clock, world.events.append)
    world.worker = Worker(world.source, world.restorer)
    outlet.refuse = lambda path, now: RestoreRefusal(FailureKind.SERVICE, "away")
    world.put("a", "b", "c")
    # One batch for all of them, which are parked together.
    await world.rounds(1)
    assert len(world.source.deferred) == 3
    world.clock.advance(60_000)
    outlet.most = 0
    await world.worker._probe_deferred()
    assert outlet.most == 3
