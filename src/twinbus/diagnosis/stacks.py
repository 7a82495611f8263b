"""Where all threads and all tasks of the process are: files, lines and functions.

No values: a message or a key may be among them.
"""

import asyncio
import faulthandler
import tempfile
from collections.abc import Iterator


def thread_stacks() -> str:
    """Of all threads. Works while another thread is stuck."""
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        return file.read()


def task_stacks(loop: asyncio.AbstractEventLoop) -> str:
    """Of all tasks of a loop."""
    parts: list[str] = []
    for task in asyncio.all_tasks(loop):
        coroutine: object = task.get_coro()
        name = getattr(coroutine, "__qualname__", type(coroutine).__name__)
        parts.append(f"{task.get_name()}: {name}\n")
        parts += [f"    {line}\n" for line in _awaited(coroutine)]
    return "".join(parts)


def _awaited(coroutine: object) -> Iterator[str]:
    """Where a coroutine waits, and whatever it waits for. (A task knows only the
    first.)"""
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None)
        if frame is not None:
            yield f"{frame.f_code.co_filename}:{frame.f_lineno} in {_name(coroutine)}"
        coroutine = getattr(coroutine, "cr_await", None)


def _name(coroutine: object) -> str:
    return getattr(coroutine, "__qualname__", "?")
