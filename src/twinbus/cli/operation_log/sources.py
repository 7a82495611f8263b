"""The operation logs of the stores that the configuration names, or that the catalog
of the bus remembers."""

from pathlib import Path

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.config.config import Config
from twinbus.log_export.blob_source import BlobSource, SqliteBlobs, source_of
from twinbus.store.base import StoreError


def log_sources(config: Config) -> list[BlobSource]:
    """One for each store. Raises Failure."""
    if config.store:
        try:
            return [source_of(url) for url in config.store]
        except StoreError as error:
            raise Failure(str(error), exit_codes.USAGE) from None
    file = config.data / "messages.sqlite3"
    if file.exists():
        return [SqliteBlobs(file)]
    places = _remembered(config)
    if not places:
        raise Failure(
            f"There is no store {file}. Name the folder of the bus with --data, or its "
            "stores with --store.",
            exit_codes.UNREADABLE,
        )
    if not all(Path(place).is_file() for place in places):
        # A database needs a password, which no catalog has.
        raise Failure(
            f"This bus keeps its messages in {', '.join(places)}: name these with "
            "--store, each with all that it takes to open it.",
            exit_codes.UNREADABLE,
        )
    return [SqliteBlobs(Path(place)) for place in places]


def _remembered(config: Config) -> list[str]:
    """Where the catalog has seen the stores of a bus with several. Raises Failure."""
    import asyncio

    from twinbus.config.config import ConfigError
    from twinbus.entities.store_entries import remembered_stores
    from twinbus.process.data_folder import DataFolder

    async def look() -> list[str]:
        try:
            return sorted(remembered_stores(await catalog.open()))
        finally:
            await catalog.close()

    try:
        catalog = DataFolder(config).kept_catalog()
        return asyncio.run(look()) if catalog.exists() else []
    except ConfigError as error:
        raise Failure(str(error), exit_codes.USAGE) from None
    except StoreError as error:
        raise Failure(str(error), exit_codes.UNREADABLE) from None
