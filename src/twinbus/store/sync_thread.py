"""A thread for the calls of one store that may block for long: its syncs.

Calls run one after the other, in the order in which they came. A caller that has lost
its patience leaves; its call goes on, and those behind it wait. The thread does not
keep the process from ending: what it waits for may never come.

A caller who expects a quick call may keep the loop waiting for a moment. To go back to
the loop and to be called again costs about as much as a quick sync.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Generic, TypeVar, final

T = TypeVar("T")


@final
class SyncThread:
    """Of one store. It is started by the first call."""

    def __init__(self, name: str) -> None:
        self._name = name
        # None ends the thread.
        self._jobs: SimpleQueue[_Job[Any] | None] = SimpleQueue()
        self._is_running = False

    async def run(
        self,
        call: Callable[[], T],
        patience_seconds: float | None = None,
        moment_seconds: float = 0.0,
    ) -> T:
        """The result of the call, or the exception that it raised. Raises TimeoutError
        after the time of patience. For the moment the loop stands still."""
        if not self._is_running:
            self._is_running = True
            threading.Thread(target=self._work, name=self._name, daemon=True).start()
        job = _Job(call)
        self._jobs.put(job)
        if moment_seconds and job.has_ended_within(moment_seconds):
            return job.outcome()
        loop = asyncio.get_running_loop()
        done = job.awaited(loop)
        if patience_seconds is None:
            await done
            return job.outcome()
        # Not `asyncio.timeout`: it costs as much as the rest of this call.
        timer = loop.call_later(patience_seconds, _give_up, done)
        try:
            await done
        finally:
            timer.cancel()
        return job.outcome()

    def end(self) -> None:
        """After the calls that are waiting. A later call starts another thread."""
        if self._is_running:
            self._is_running = False
            self._jobs.put(None)
            # The next thread must not take what is meant for this one.
            self._jobs = SimpleQueue()

    def _work(self) -> None:
        jobs = self._jobs
        while (job := jobs.get()) is not None:
            job.work()


@final
class _Job(Generic[T]):
    """A call, and what became of it."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._result: T | None = None
        self._error: BaseException | None = None
        # Released by the thread when the call has ended.
        self._running = threading.Lock()
        self._running.acquire()
        # Guards the two below.
        self._mutex = threading.Lock()
        self._has_ended = False
        self._told: tuple[asyncio.AbstractEventLoop, asyncio.Future[None]] | None = None

    def work(self) -> None:
        """In the thread."""
        try:
            self._result = self._call()
        except BaseException as raised:
            self._error = raised
        with self._mutex:
            self._has_ended = True
            told = self._told
        self._running.release()
        if told is not None:
            loop, done = told
            # The loop may have ended meanwhile.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_tell, done)

    def has_ended_within(self, seconds: float) -> bool:
        return self._running.acquire(timeout=seconds)

    def awaited(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
        """Done when the call has ended."""
        done: asyncio.Future[None] = loop.create_future()
        with self._mutex:
            if self._has_ended:
                done.set_result(None)
            else:
                self._told = loop, done
        return done

    def outcome(self) -> T:
        """After its end: the result of the call, or the exception that it raised."""
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value] # T may be None


def _tell(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)  # else whoever waited has gone


def _give_up(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_exception(TimeoutError())
