"""The pauses of the SDK while it opens and closes links, made short.

Its modules call `time.sleep` and `asyncio.sleep` by the names of these modules. So each
is given a stand-in, which has all of the real module and another `sleep`.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any, Final, final

from twinbus.sdk_internals.private_parts import PAUSING_MODULES

_LONG_SECONDS: Final = 0.5
"""Pauses between two looks at a state are shorter than that, those of the thread that
keeps a connection alive are longer."""

_LOOK_SECONDS: Final = 0.001
_THREAD_SECONDS: Final = 0.02


@final
class _HurriedModule:
    """The module `time` or `asyncio`, but for its sleep."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        is_blocking = module is not asyncio
        self.sleep: Any = self._sleep if is_blocking else self._sleep_asynchronously

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def _sleep(self, seconds: float) -> None:
        self._module.sleep(_shortened(seconds))

    async def _sleep_asynchronously(self, seconds: float) -> None:
        await self._module.sleep(_shortened(seconds))


def _shortened(seconds: float) -> float:
    return min(seconds, _LOOK_SECONDS if seconds < _LONG_SECONDS else _THREAD_SECONDS)


@contextmanager
def shortened_pauses() -> Iterator[None]:
    """Of the whole process."""
    replaced: list[tuple[ModuleType, str, object]] = []
    try:
        for path, name in PAUSING_MODULES:
            module = import_module(path)
            replaced.append((module, name, getattr(module, name)))
            setattr(module, name, _HurriedModule(import_module(name)))
        yield
    finally:
        for module, name, before in reversed(replaced):
            setattr(module, name, before)
