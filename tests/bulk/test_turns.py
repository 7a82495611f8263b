"""Large requests are processed in slices; other clients are served in between."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from wire.message import data_message

from twinbus.testing import Bus

from .caller import Caller

COUNT = 20_000
# Messages that are looked at in one turn, at most.
SLICE = 1_000


class Turns:
    """Counts the turns of the bus's loop while something is done."""

    def __init__(self, bus: Bus) -> None:
        loop = bus._loop
        assert loop is not None
        self._loop: asyncio.AbstractEventLoop = loop
        self._is_counting = False
        self.count = 0

    def during(self, act: Callable[[], Any]) -> int:
        self.count, self._is_counting = 0, True
        self._loop.call_soon_threadsafe(self._turn)
        act()
        self._is_counting = False
        return self.count

    def _turn(self) -> None:
        self.count += 1
        if self._is_counting:
            # A callback of this turn runs in the next one.
            self._loop.call_soon(self._turn)


@pytest.fixture
def turns(bus: Bus) -> Turns:
    return Turns(bus)


def test_large_requests_leave_others_their_turns(
    call: Caller, queue: str, turns: Turns
) -> None:
    """The counter keeps the loop busy; a request that ended in one go would let it
    count a handful."""
    row = (queue, data_message(b"x" * 256))
    [epoch] = call.lease(queue)
    at_least = COUNT // SLICE
    assert turns.during(lambda: call.append([row] * COUNT)) > at_least
    planned: dict[str, Any] = {}

    def plan() -> None:
        planned.update(call.plan(queue, epoch=epoch))

    assert turns.during(plan) > at_least
    assert planned["messages"] == COUNT
    browse = {
        **{"path": queue, "generation": call.generation(queue)},
        **{"from": 0, "to": COUNT + 1},
    }
    tables: list[int] = []
    assert (
        turns.during(lambda: tables.append(call.ask("browse", browse).table.num_rows))
        > at_least
    )
    assert tables == [COUNT]
    end = planned["to"]
    assert turns.during(lambda: call.settle(queue, epoch, to=end)) > at_least
    assert call.fragment(queue)["active_count"] == 0
