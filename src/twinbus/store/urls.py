"""Which stores URLs mean, as `--store` and the configuration name them.

sqlite:///data/bus.sqlite3     a file, relative to the working directory
sqlite:////var/lib/bus.sqlite3 a file, absolute
memory:                        gone when the process ends
postgresql://HOST/DB?schema=S  a schema of a PostgreSQL database

`_SCHEMES` has the opener of each kind. Texts for people never have a password in them.
"""

import re
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from twinbus.store.base import Store, StoreError
from twinbus.store.catalog_move import MovableCatalog
from twinbus.store.memory import MemoryStore
from twinbus.store.sqlite import SqliteStore
from twinbus.store.sqlite_apart import ApartLog
from twinbus.store.sqlite_catalog import SqliteCatalog

# A password may have an @ or a / of its own, if whoever wrote it did not know better.
_PASSWORD: Final = re.compile(r"(?<=://)([^/@:]*):[^?]*@")
_PASSWORD_PARAMETER: Final = re.compile(r"(?i)([?&](?:ssl)?password=)[^&]*")

_MEMORY: Final = "memory:"


def _file_of(rest: str) -> Path:
    if not rest.startswith("///") or rest == "///":
        raise StoreError(
            f"'sqlite:{rest}' names no file. Write sqlite:///PATH; a path from the "
            "root has four slashes."
        )
    return Path(rest.removeprefix("///"))


def _sqlite(rest: str, *, is_alone: bool) -> Store:
    path = _file_of(rest)
    if is_alone:
        return SqliteStore(path)
    # The catalog remembers where a store is, whatever the working directory is then.
    path = path.resolve()
    return SqliteStore(path, ApartLog(path))


def _memory(rest: str, *, is_alone: bool) -> Store:
    if rest:
        raise StoreError(f"'memory:{rest}' has too much: write memory: alone.")
    return MemoryStore()


def _postgres(rest: str, *, is_alone: bool) -> Store:
    require_psycopg()
    from twinbus.store.postgres import PostgresStore

    return PostgresStore(f"postgresql:{rest}")


_SCHEMES: Final[dict[str, Callable[..., Store]]] = {
    "sqlite": _sqlite,
    "memory": _memory,
    "postgresql": _postgres,
    "postgres": _postgres,
}
"""Takes what follows the colon, and `is_alone`: no other store is in the process."""


def open_store_url(url: str, *, is_alone: bool = True) -> Store:
    """The store that the URL means, not opened yet. Raises StoreError."""
    scheme, _, rest = url.partition(":")
    make = _SCHEMES.get(scheme.lower())
    if make is None:
        raise StoreError(
            f"There is no store of the kind '{scheme}' (in '{without_password(url)}'). "
            f"Available: {', '.join(sorted(_SCHEMES))}."
        )
    return make(rest, is_alone=is_alone)


def open_store_urls(urls: Sequence[str], *, is_alone: bool = True) -> list[Store]:
    """The stores of one process, not opened yet. Raises StoreError. If the process is
    not `is_alone`, other brokers use them, too."""
    if len(urls) == 1 and is_alone:
        return [open_store_url(urls[0])]
    if _MEMORY in urls and not is_volatile(urls):
        raise StoreError(
            "memory: is one of several stores, and the others are kept: its entities "
            "would be lost with every stop. Leave it out."
        )
    stores: dict[str, Store] = {}
    for number, url in enumerate(urls):
        store = open_store_url(url, is_alone=False)
        place = f"{number}" if url == _MEMORY else store.location
        if place in stores:
            raise StoreError(
                f"'{without_password(url)}' is given twice as a store: leave one out."
            )
        stores[place] = store
    return list(stores.values())


def open_catalog_url(url: str) -> MovableCatalog:
    """The catalog that the URL means, not opened yet. Raises StoreError."""
    scheme, _, rest = url.partition(":")
    if is_for_machines(url):
        require_psycopg()
        from twinbus.store.postgres_catalog import PostgresCatalog

        return PostgresCatalog(f"postgresql:{rest}")
    if scheme.lower() == "sqlite":
        return SqliteCatalog(_file_of(rest).resolve())
    raise StoreError(
        f"There is no catalog of the kind '{scheme}' (in '{without_password(url)}'). "
        "Available: postgresql, sqlite."
    )


def is_for_machines(catalog_url: str) -> bool:
    """Brokers of several machines can use the catalog, and join each other by it."""
    return catalog_url.partition(":")[0].lower() in ("postgresql", "postgres")


def require_psycopg() -> None:
    """Raises StoreError if the driver of PostgreSQL is not installed."""
    if find_spec("psycopg") is None:
        raise StoreError(
            "PostgreSQL needs the package psycopg: pip install 'twinbus[postgres]'."
        )


def is_volatile(urls: Sequence[str]) -> bool:
    """Nothing is kept when the process ends."""
    return bool(urls) and all(url == _MEMORY for url in urls)


def without_password(url: str) -> str:
    """The URL for texts and logs."""
    return _PASSWORD_PARAMETER.sub(r"\1***", _PASSWORD.sub(r"\1:***@", url))
