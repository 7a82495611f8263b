"""A loop in a thread: for many callers, also interrupted ones, until it is closed."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from twinbus.pairing.errors import PairingError
from twinbus.pairing.loop_thread import LoopThread


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    made = LoopThread("test")
    yield made
    made.close()


def test_many_threads_call_at_once(loop: LoopThread) -> None:
    barrier = asyncio.Barrier(8)

    async def meet(number: int) -> int:
        await barrier.wait()
        return number

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda n: loop.run(meet(n)), range(8))) == list(range(8))


def test_errors_come_out_of_the_call(loop: LoopThread) -> None:
    async def fail() -> None:
        raise KeyError("why")

    with pytest.raises(KeyError, match="why"):
        loop.run(fail())


def test_who_is_interrupted_takes_the_call_back(
    loop: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, cancelled = threading.Event(), threading.Event()

    async def wait() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    class Interrupted:
        """The future of a thread that Control-C hits while it waits."""

        def __init__(self, future) -> None:
            self._future = future
            self.cancel = future.cancel

        def result(self) -> None:
            assert begun.wait(10)
            raise KeyboardInterrupt

    submit = asyncio.run_coroutine_threadsafe
    monkeypatch.setattr(
        "asyncio.run_coroutine_threadsafe",
        lambda work, loop: Interrupted(submit(work, loop)),
    )
    with pytest.raises(KeyboardInterrupt):
        loop.run(wait())
    assert cancelled.wait(10)


def test_a_call_from_the_loop_itself_is_refused(loop: LoopThread) -> None:
    async def nothing() -> None: ...

    async def call_again() -> None:
        loop.run(nothing())

    with pytest.raises(RuntimeError, match="on_event"):
        loop.run(call_again())


def test_a_closed_one_refuses_calls_and_has_no_thread() -> None:
    async def nothing() -> None: ...

    before = threading.active_count()
    loop = LoopThread("test")
    loop.close()
    loop.close()
    assert threading.active_count() == before
    with pytest.raises(PairingError, match="closed"):
        loop.run(nothing())


def test_a_forked_process_is_told_that_it_has_no_loop(
    loop: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing() -> None: ...

    with monkeypatch.context() as child:
        child.setattr("os.getpid", lambda: -1)
        with pytest.raises(PairingError, match="forked"):
            loop.run(nothing())
        loop.close()
    loop.run(nothing())


def test_what_was_left_behind_ends_with_the_loop() -> None:
    ended = threading.Event()

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def leave_behind() -> None:
        tasks.append(asyncio.create_task(wait()))
        await asyncio.sleep(0)

    tasks: list[asyncio.Task[None]] = []
    loop = LoopThread("test")
    loop.run(leave_behind())
    loop.close()
    assert ended.is_set()
    assert tasks[0].cancelled()
