"""A syphon continues after failures of either side, and after a bug in it."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest

from simulator.clock import SimulatedClock
from simulator.loop import VirtualLoop, run_virtually
from twinbus.pairing.failures import FailureKind
from twinbus.pairing.syphon.errors import SecondaryError
from twinbus.pairing.syphon.ports import BacklogMessage, BacklogQueue, Engine, Lease
from twinbus.pairing.syphon.service import SyphonService
from twinbus.testing.clock import ManualClock

from .backlog import ListOutlet, ListSource

QUEUE = "north/x-servicebus-transfer/0"
BUG = "nobody thought of this"


class IdleSource(ListSource):
    """A queue without messages; what is in `failures` is raised first."""

    def __init__(self, failures: list[Exception]) -> None:
        super().__init__(ManualClock(0), QUEUE)
        self._failures = failures

    async def receive(
        self, max_count: int, max_wait_seconds: float
    ) -> list[BacklogMessage]:
        if self._failures:
            raise self._failures.pop()
        self.waits.append(max_wait_seconds)
        await asyncio.sleep(max_wait_seconds)
        return []


@dataclass
class OneQueue:
    """A secondary with one backlog queue."""

    name: str = "south"
    # Raised by the next look for queues, and by the next receives.
    listing_failures: list[Exception] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)
    sources: list[IdleSource] = field(default_factory=list)

    # When the queue was made, and how often queues were looked for.
    created_at: int = 1
    listing_count: int = 0

    async def queues(self, prefix: str) -> list[BacklogQueue]:
        self.listing_count += 1
        if self.listing_failures:
            raise self.listing_failures.pop()
        return [BacklogQueue(QUEUE, self.created_at)]

    def source(self, queue: BacklogQueue) -> IdleSource:
        self.sources.append(IdleSource(self.failures))
        return self.sources[-1]

    async def lease(self, path: str) -> Lease:
        raise NotImplementedError

    async def close(self) -> None:
        """There is nothing to close."""


def serve(
    act: Callable[[SyphonService, OneQueue], Coroutine[Any, Any, None]],
    *open_failures: Exception,
) -> None:
    """Run a service in virtual time; opening its engine fails so often at first."""
    loop, left = VirtualLoop(), list(open_failures)
    secondary = OneQueue()

    async def open_engine() -> Engine[BacklogMessage]:
        if left:
            raise left.pop()
        return Engine("lists", secondary, ListOutlet(ManualClock(0)))

    async def main() -> None:
        service = SyphonService(open_engine, "north", clock=SimulatedClock(loop))
        service.start()
        try:
            await act(service, secondary)
        finally:
            await service.close()

    run_virtually(loop, main())


@pytest.mark.parametrize("failure", [SecondaryError("away"), RuntimeError(BUG)])
def test_an_engine_that_cannot_be_opened_is_opened_later(
    failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async def act(service: SyphonService, secondary: OneQueue) -> None:
        await asyncio.sleep(0.5)
        assert not service.is_running
        await asyncio.sleep(10)
        assert service.is_running

    with caplog.at_level(logging.WARNING, "twinbus.pairing"):
        serve(act, failure)
    assert str(failure) in caplog.text


def test_a2_busy_secondary_is_opened_again_after_ten_seconds() -> None:
    async def act(service: SyphonService, secondary: OneQueue) -> None:
        await asyncio.sleep(9.9)
        assert not service.is_running
        await asyncio.sleep(0.2)
        assert service.is_running

    serve(act, SecondaryError("busy", FailureKind.BUSY))


def test_a2_busy_backlog_queue_is_left_alone_for_ten_seconds() -> None:
    async def act(service: SyphonService, secondary: OneQueue) -> None:
        secondary.failures.append(SecondaryError("busy", FailureKind.BUSY))
        await asyncio.sleep(9.9)
        assert (secondary.failures, secondary.sources[0].waits) == ([], [])
        await asyncio.sleep(0.2)
        assert len(secondary.sources[0].waits) == 1

    serve(act)


def test_a_worker_that_ended_by_a_bug_begins_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def act(service: SyphonService, secondary: OneQueue) -> None:
        secondary.failures.append(RuntimeError(BUG))
        await asyncio.sleep(3_600)
        assert [len(source.waits) > 0 for source in secondary.sources] == [False, True]

    serve(act)
    assert BUG in caplog.text


def test_queues_are_looked_for_again_after_a_bug(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def act(service: SyphonService, secondary: OneQueue) -> None:
        await asyncio.sleep(10)
        secondary.listing_failures += [RuntimeError(BUG), SecondaryError("away")]
        await asyncio.sleep(600)
        assert secondary.listing_failures == []
        secondary.failures.append(RuntimeError("and the worker is begun again"))
        await asyncio.sleep(3_600)
        assert len(secondary.sources) == 2

    serve(act)
    assert BUG in caplog.text


def test_a_queue_that_is_gone_is_left_until_it_is_found_again() -> None:
    async def act(service: SyphonService, secondary: OneQueue) -> None:
        secondary.failures.append(SecondaryError("deleted", FailureKind.NOT_FOUND))
        secondary.created_at = 2
        await asyncio.sleep(30)
        # Nobody tries the old one again.
        assert len(secondary.sources) == 1
        assert secondary.sources[0].waits == []
        await asyncio.sleep(60)
        assert len(secondary.sources) == 2

    serve(act)


def test_what_an_idle_hour_costs() -> None:
    """P13, and what the syphon asks besides: what docs/concepts/pairing.md says."""

    async def act(service: SyphonService, secondary: OneQueue) -> None:
        await asyncio.sleep(3_599)
        (source,) = secondary.sources
        assert service.status().receives == 4
        assert secondary.listing_count == 60
        assert source.peeks == 1

    serve(act)


def test_a_syphon_that_cannot_run_says_so_and_keeps_its_counts() -> None:
    async def act(service: SyphonService, secondary: OneQueue) -> None:
        await asyncio.sleep(0.5)
        status = service.status()
        assert (status.is_running, status.trouble) == (False, ("no route",))
        await asyncio.sleep(3_600)
        status = service.status()
        assert (status.is_running, status.trouble) == (True, ())
        secondary.failures.append(SecondaryError("refused", FailureKind.AUTHORIZATION))
        await asyncio.sleep(15 * 60)
        assert service.status().receives > 4

    serve(act, SecondaryError("no route"))


def test_a_queue_in_trouble_is_named_until_it_is_well() -> None:
    async def act(service: SyphonService, secondary: OneQueue) -> None:
        secondary.failures += [SecondaryError("refused", FailureKind.AUTHORIZATION)] * 3
        await asyncio.sleep(0.5)
        assert service.status().trouble == (f"backlog queue '{QUEUE}': refused",)
        # Well again after three tries; it does not take a whole poll to know that.
        await asyncio.sleep(60)
        assert service.status().trouble == ()

    serve(act)
