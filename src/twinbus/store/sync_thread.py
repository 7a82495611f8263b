"""A thread for the calls of one store that may block for long: its syncs.

Calls run one after the other, in the order in which they came. A caller that has lost
its patience leaves; its call goes on, and those behind it wait. The thread does not
keep the process from ending: what it waits for may never come.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar, final

T = TypeVar("T")

_Job = tuple[Callable[[], Any], asyncio.AbstractEventLoop, "asyncio.Future[Any]"]


@final
class SyncThread:
    """Of one store. It is started by the first call."""

    def __init__(self, name: str) -> None:
        self._name = name
        # None ends the thread.
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._is_running = False

    async def run(
        self, call: Callable[[], T], patience_seconds: float | None = None
    ) -> T:
        """The result of the call, or the exception that it raised. Raises TimeoutError
        after the given time."""
        if not self._is_running:
            self._is_running = True
            threading.Thread(target=self._work, name=self._name, daemon=True).start()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        self._jobs.put((call, loop, done))
        if patience_seconds is None:
            return await done
        # Not `asyncio.timeout`: it costs as much as the rest of this call.
        timer = loop.call_later(patience_seconds, _answer, done, None, TimeoutError())
        try:
            return await done
        finally:
            timer.cancel()

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
            call, loop, done = job
            try:
                result, error = call(), None
            except BaseException as raised:
                result, error = None, raised
            # The loop may have ended meanwhile.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_answer, done, result, error)


def _answer(
    done: "asyncio.Future[Any]", result: object, error: BaseException | None
) -> None:
    if done.done():
        return  # whoever waited has gone
    if error is None:
        done.set_result(result)
    else:
        done.set_exception(error)
