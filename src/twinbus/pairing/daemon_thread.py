"""A blocking call in a thread that does not keep the process from ending.

At their end, the loop and the process wait for the threads of asyncio's own pool. A
peer that never answers would keep both from ending.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


async def in_daemon_thread(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """The function's result. After a cancellation the thread ends when it can."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            _tell(loop, future.set_exception, error, future)
        else:
            _tell(loop, future.set_result, result, future)

    threading.Thread(target=run, name="twinbus-pair-call", daemon=True).start()
    return await future


def _tell(
    loop: asyncio.AbstractEventLoop,
    tell: Callable[[Any], None],
    outcome: object,
    future: asyncio.Future[Any],
) -> None:
    def tell_if_awaited() -> None:
        if not future.done():
            tell(outcome)

    try:
        loop.call_soon_threadsafe(tell_if_awaited)
    except RuntimeError:
        # The loop was closed meanwhile: nobody waits any more.
        return
