"""Calls in a thread of their own: waited for on the loop for a moment, or beside it."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from twinbus.store.sync_thread import SyncThread

LONG_SECONDS = 60.0
"""More than any test takes."""


@pytest.fixture
async def thread() -> AsyncIterator[SyncThread]:
    made = SyncThread("calls of a test")
    yield made
    made.end()


class Gate:
    """A call that ends when it is let through."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.opened = threading.Event()

    def __call__(self) -> str:
        self.began.set()
        assert self.opened.wait(LONG_SECONDS)
        return "through"


async def _turns() -> int:
    """Count the turns of the loop until cancelled."""
    count = 0
    try:
        while True:
            await asyncio.sleep(0)
            count += 1
    except asyncio.CancelledError:
        return count


@pytest.mark.parametrize("moment", [0.0, LONG_SECONDS])
async def test_a_call_has_a_result(thread: SyncThread, moment: float) -> None:
    assert await thread.run(lambda: 7, moment_seconds=moment) == 7


@pytest.mark.parametrize("moment", [0.0, LONG_SECONDS])
async def test_a_call_that_fails_raises_at_its_caller(
    thread: SyncThread, moment: float
) -> None:
    with pytest.raises(ZeroDivisionError):
        await thread.run(lambda: 1 // 0, LONG_SECONDS, moment)
    assert await thread.run(lambda: "next", LONG_SECONDS, moment) == "next"


async def test_a_call_that_ends_within_the_moment_takes_no_turn(
    thread: SyncThread,
) -> None:
    turns = asyncio.create_task(_turns())
    await asyncio.sleep(0)
    for _ in range(3):
        await thread.run(lambda: None, moment_seconds=LONG_SECONDS)
    turns.cancel()
    assert await turns == 0


async def test_the_loop_goes_on_after_the_moment(thread: SyncThread) -> None:
    gate = Gate()
    call = asyncio.create_task(thread.run(gate, LONG_SECONDS, moment_seconds=0.001))
    await asyncio.sleep(0)
    # The moment is over: this runs although the call does not end.
    assert gate.began.wait(LONG_SECONDS)
    assert not call.done()
    gate.opened.set()
    assert await call == "through"


async def test_a_caller_without_patience_left_leaves_the_call_behind(
    thread: SyncThread,
) -> None:
    gate = Gate()
    with pytest.raises(TimeoutError):
        await thread.run(gate, 0.001, moment_seconds=0.001)
    behind = asyncio.create_task(thread.run(lambda: "behind", LONG_SECONDS))
    await asyncio.sleep(0)
    assert not behind.done()
    gate.opened.set()
    assert await behind == "behind"


async def test_a_call_after_the_end_has_a_thread_of_its_own(thread: SyncThread) -> None:
    first = await thread.run(threading.get_ident)
    thread.end()
    assert await thread.run(threading.get_ident) != 0
    assert first != threading.get_ident()
