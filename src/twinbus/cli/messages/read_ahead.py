"""Reads what is to be sent in a thread of its own.

Standard input may pause for hours, and the connection has to be kept alive meanwhile.
What has been read is given on at once: a line is not held back until many are there.
"""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

_AHEAD: Final = 4_000
"""At most so many are read and not sent yet."""


class _Buffer(Generic[T]):
    """Between the thread that reads and the loop that sends."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._changed = threading.Condition()
        self._items: deque[T] = deque()
        self._is_over = False
        self._failure: BaseException | None = None
        # Set whenever there is something to take.
        self.ready = asyncio.Event()

    def fill(self, source: Iterable[T]) -> None:
        """In the thread."""
        try:
            for item in source:
                with self._changed:
                    while len(self._items) >= _AHEAD and not self._is_over:
                        self._changed.wait()
                    if self._is_over:
                        return
                    self._items.append(item)
                    is_first = len(self._items) == 1
                if is_first:
                    self._wake()
        except BaseException as error:
            self._failure = error
        with self._changed:
            self._is_over = True
        self._wake()

    def take(self, count: int) -> list[T]:
        """Up to so many; empty if none is there now."""
        with self._changed:
            found = [self._items.popleft() for _ in range(min(count, len(self._items)))]
            if not self._items and not self._is_over:
                self.ready.clear()
            self._changed.notify()
        return found

    def check(self) -> bool:
        """Whether all was taken. Raises what the source raised."""
        with self._changed:
            if self._items or not self._is_over:
                return False
        if self._failure is not None:
            raise self._failure
        return True

    def stop(self) -> None:
        with self._changed:
            self._is_over = True
            self._changed.notify()

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self.ready.set)
        except RuntimeError:
            # The loop has ended: nobody waits.
            return


async def read_ahead(source: Iterable[T], at_once: int) -> AsyncIterator[list[T]]:
    """What the source gives, in portions of at most `at_once`. Raises what it raises,
    after all that came before."""
    buffer: _Buffer[T] = _Buffer(asyncio.get_running_loop())
    # A daemon: one that waits for standard input does not keep the process alive.
    threading.Thread(target=buffer.fill, args=(source,), daemon=True).start()
    try:
        while not buffer.check():
            await buffer.ready.wait()
            if portion := buffer.take(at_once):
                yield portion
    finally:
        buffer.stop()
