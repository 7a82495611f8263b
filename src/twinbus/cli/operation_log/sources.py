"""The operation logs of the stores that the configuration names."""

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.config.config import Config
from twinbus.log_export.blob_source import BlobSource, SqliteBlobs, source_of
from twinbus.store.base import StoreError


def log_sources(config: Config) -> list[BlobSource]:
    """One for each store. Raises Failure."""
    if not config.store:
        file = config.data / "messages.sqlite3"
        if not file.exists():
            raise Failure(
                f"There is no store {file}. Name the folder of the bus with --data, or "
                "its stores with --store.",
                exit_codes.UNREADABLE,
            )
        return [SqliteBlobs(file)]
    try:
        return [source_of(url) for url in config.store]
    except StoreError as error:
        raise Failure(str(error), exit_codes.USAGE) from None
