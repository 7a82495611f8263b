"""An event loop in a thread of its own, for callers that have none.

Any number of threads may call at once. A caller that is interrupted while it waits
cancels its call. The thread is a daemon, so that a program that forgets to close a pair
can still end. A forked process does not have the thread; a call there raises an error
instead of waiting for ever.
"""

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, Final, TypeVar, final

from twinbus.pairing.errors import PairingError

T = TypeVar("T")

_END_SECONDS: Final = 10.0
"""For the loop to end; what it still does is cancelled."""


@final
class LoopThread:
    """Runs coroutines for other threads until it is closed."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run_loop, name=name, daemon=True)
        self._mutex = threading.Lock()
        self._process_id = os.getpid()
        self.is_closed = False
        self._thread.start()

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._end())
            self._loop.close()

    async def _end(self) -> None:
        """Cancel what interrupted callers left behind."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._loop.shutdown_default_executor()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for the coroutine's result, in any thread but the loop's own."""
        try:
            future = self._submit(work)
        except BaseException:
            work.close()
            raise
        try:
            return future.result()
        except BaseException:
            # KeyboardInterrupt: nobody waits for it any more.
            future.cancel()
            raise

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        if threading.current_thread() is self._thread:
            raise RuntimeError(
                "A synchronous pair was called from its own event loop, as an on_event "
                "callback is: it would wait for itself. Hand the work to a thread."
            )
        if os.getpid() != self._process_id:
            raise PairingError(
                "The pair was made before this process was forked, and stays with its "
                "parent. Pair anew, with new clients, in every process."
            )
        with self._mutex:
            if self.is_closed:
                raise PairingError("The pair was closed.")
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self) -> None:
        """End the loop and the thread."""
        if os.getpid() != self._process_id:
            return
        with self._mutex:
            if self.is_closed:
                return
            self.is_closed = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_END_SECONDS)
