"""Work in several sessions at a time: to accept one takes longer than to read it."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

S = TypeVar("S")
T = TypeVar("T")

_THREADS: Final = 8


def with_sessions(work: Callable[[S], T], sessions: Sequence[S]) -> list[T]:
    """What the work returns for each."""
    if not sessions:
        return []
    count = min(_THREADS, len(sessions))
    with ThreadPoolExecutor(count, thread_name_prefix="servicebus") as threads:
        return list(threads.map(work, sessions))
