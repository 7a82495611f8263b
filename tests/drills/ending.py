"""How the tasks of a drill end, and a drill that does not end by itself."""

import asyncio
import io
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

_LOOK_SECONDS = 1.0

T = TypeVar("T")


async def end_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel them until they end. One cancellation is not enough for code that calls
    `asyncio.wait_for` of Python 3.11: it is lost if the call ends just then."""
    every = list(tasks)
    left = set(every)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=_LOOK_SECONDS)
    await asyncio.gather(*every, return_exceptions=True)


async def within(
    seconds: float, work: Coroutine[Any, Any, T], tell: Callable[[str], None]
) -> T:
    """Its result. Raises TimeoutError after telling where every task waits."""
    task = asyncio.create_task(work)
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
        if not done:
            tell(f"not done after {seconds:.0f} s; the tasks wait here:")
            tell(_stacks())
            raise TimeoutError
        return task.result()
    finally:
        await end_tasks([task])


def _stacks() -> str:
    text = io.StringIO()
    for task in asyncio.all_tasks():
        task.print_stack(file=text)
    return text.getvalue()
