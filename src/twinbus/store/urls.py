"""Which store a URL means, as `--store` and the configuration name it.

sqlite:///data/bus.sqlite3     a file, relative to the working directory
sqlite:////var/lib/bus.sqlite3 a file, absolute
memory:                        gone when the process ends
"""

from collections.abc import Callable
from typing import Final

from twinbus.store.base import Store, StoreError
from twinbus.store.memory import MemoryStore
from twinbus.store.sqlite import SqliteStore


def _sqlite(rest: str) -> Store:
    if not rest.startswith("///") or rest == "///":
        raise StoreError(
            f"'sqlite:{rest}' names no file. Write sqlite:///PATH; a path from the "
            "root has four slashes."
        )
    return SqliteStore(rest.removeprefix("///"))


def _memory(rest: str) -> Store:
    if rest:
        raise StoreError(f"'memory:{rest}' has too much: write memory: alone.")
    return MemoryStore()


_SCHEMES: Final[dict[str, Callable[[str], Store]]] = {
    "sqlite": _sqlite,
    "memory": _memory,
}


def open_store_url(url: str) -> Store:
    """The store that the URL means, not opened yet. Raises StoreError."""
    scheme, _, rest = url.partition(":")
    make = _SCHEMES.get(scheme.lower())
    if make is None:
        raise StoreError(
            f"There is no store of the kind '{scheme}' (in '{url}'). "
            f"Available: {', '.join(sorted(_SCHEMES))}."
        )
    return make(rest)
