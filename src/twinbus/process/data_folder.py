"""The data folder: what a bus keeps on this machine.

root-key              key of the root rule, readable by the owner only
messages.sqlite3      the embedded store; -confirmed: its last commit, -reserve: room
catalog.sqlite3       which entities exist

With a catalog elsewhere the key is in that catalog: those who share it have data
folders of their own, and clients have one key. The first of them puts its key there.
"""

import base64
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from twinbus.config.config import Config, ConfigError
from twinbus.owner.sharing import Sharing
from twinbus.process.restore_mark import refuse_unfinished
from twinbus.store.base import Store, StoreError
from twinbus.store.catalog import Catalog
from twinbus.store.catalog_move import MovableCatalog
from twinbus.store.memory_catalog import MemoryCatalog
from twinbus.store.sqlite import SqliteStore
from twinbus.store.sqlite_apart import ApartLog
from twinbus.store.sqlite_catalog import SqliteCatalog
from twinbus.store.urls import is_volatile, open_catalog_url, open_store_urls

_KEY_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class RootKey:
    """The key of the root rule, and where it comes from."""

    text: str = field(repr=False)
    # The file; None if the key was configured, or is not stored.
    file: Path | None = None
    # The key was made now, so no client has it yet.
    is_new: bool = False
    # The catalog that has it, for people; empty if it is not there.
    catalog: str = ""
    # Other users can read the file.
    is_exposed: bool = False


def kept_root_key(data: Path) -> RootKey:
    """The key in a data folder. Raises OSError, ConfigError."""
    file = data / "root-key"
    text = file.read_text().strip()
    if not text:
        raise ConfigError(
            f"{file} is empty. Remove it, and the next start makes another key; or "
            "give one with --key or TWINBUS_KEY."
        )
    mode = file.stat().st_mode
    is_exposed = bool(mode & (stat.S_IRWXG | stat.S_IRWXO))
    return RootKey(text=text, file=file, is_exposed=is_exposed)


def keep_root_key(data: Path, key: str) -> None:
    """Put it into a data folder that has none. Raises OSError."""
    _write_key(data / "root-key", key)


class DataFolder:
    """Finds what the configuration does not give, or creates it at the first start."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._path = config.data
        self._is_volatile = is_volatile(config.store)

    def _made(self) -> Path:
        try:
            self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"The data folder {self._path} can't be made: "
                f"{os.strerror(error.errno or 0)}. Choose another with --data."
            ) from None
        return self._path

    def root_key(self) -> RootKey:
        """The configured key, or the one made at the first start."""
        if self._config.key:
            return RootKey(text=self._config.key)
        if self._is_volatile:
            return RootKey(text=_new_key(), is_new=True)
        if self._config.catalog:
            return self._shared_root_key()
        data = self._made()
        try:
            return kept_root_key(data)
        except FileNotFoundError:
            file = data / "root-key"
            return RootKey(text=_write_key(file, _new_key()), file=file, is_new=True)
        except OSError as error:
            raise ConfigError(
                f"{data / 'root-key'}: {os.strerror(error.errno or 0)}. Make it "
                "readable, or give a key with --key or TWINBUS_KEY."
            ) from None

    def _shared_root_key(self) -> RootKey:
        """That of the catalog. What is proposed counts if the catalog has none; before
        there is a catalog nothing is kept."""
        catalog = self.kept_catalog()
        made = ""
        try:
            proposed = kept_root_key(self._path).text
        except OSError:
            proposed = made = _new_key()
        try:
            text = catalog.root_key(proposed) if catalog.exists() else proposed
        except StoreError as error:
            raise ConfigError(str(error)) from None
        return RootKey(text=text, catalog=catalog.location, is_new=text == made)

    def stores(self, sharing: Sharing = Sharing.ALONE) -> list[Store]:
        """Those of the configuration, or the one in the folder. Raises ConfigError."""
        refuse_unfinished(self._path)
        is_alone = sharing is Sharing.ALONE
        if not is_alone and self._is_volatile:
            raise ConfigError(
                "memory: is in one process, and several brokers cannot share it. "
                "Leave out --brokers, or choose another --store."
            )
        if self._config.store:
            try:
                return open_store_urls(self._config.store, is_alone=is_alone)
            except StoreError as error:
                raise ConfigError(str(error)) from None
        file = self._made() / "messages.sqlite3"
        if is_alone:
            return [SqliteStore(file)]
        # Brokers may have other working directories.
        file = file.resolve()
        return [SqliteStore(file, ApartLog(file))]

    def catalog(self) -> Catalog:
        """Raises ConfigError."""
        if not self._is_volatile:
            if not self._config.catalog:
                self._made()
            return self.kept_catalog()
        if self._config.catalog:
            raise ConfigError(
                "memory: keeps nothing, and a catalog would keep its entities. Leave "
                "out --catalog, or choose another --store."
            )
        return MemoryCatalog()

    def kept_catalog(self) -> MovableCatalog:
        """For those who only look, too: it makes nothing. Raises ConfigError."""
        if not self._config.catalog:
            return SqliteCatalog(self._path / "catalog.sqlite3")
        try:
            return open_catalog_url(self._config.catalog)
        except StoreError as error:
            raise ConfigError(f"catalog: {error}") from None


def _new_key() -> str:
    return base64.b64encode(os.urandom(_KEY_BYTES)).decode()


def _write_key(file: Path, key: str) -> str:
    """Write the key so that other users cannot read it at any moment."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(key + "\n")
    return key
