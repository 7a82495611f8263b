"""The key with all rights: from the settings, or from the data folder."""

import os

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.config.config import Config, ConfigError
from twinbus.process.data_folder import DataFolder, kept_root_key
from twinbus.store.base import StoreError


def root_key(config: Config, instead: str = "") -> str:
    """Raises Failure; `instead` says what else a user of the command may give."""
    if config.key:
        return config.key
    if config.catalog:
        return _key_in_catalog(config)
    try:
        return kept_root_key(config.data).text
    except ConfigError as error:
        raise Failure(str(error), exit_codes.USAGE) from None
    except OSError as error:
        raise Failure(
            f"The key of the server is not known: {config.data / 'root-key'}: "
            f"{os.strerror(error.errno or 0)}. `twinbus serve` makes it at its first "
            f"start. Give the server's data folder with --data{instead}.",
            exit_codes.USAGE,
        ) from None


def _key_in_catalog(config: Config) -> str:
    """Where the catalog is shared the key is in it. Raises Failure."""
    try:
        catalog = DataFolder(config).kept_catalog()
        key = catalog.root_key("") if catalog.exists() else ""
    except ConfigError as error:
        raise Failure(str(error), exit_codes.USAGE) from None
    except StoreError as error:
        raise Failure(str(error), exit_codes.UNREADABLE) from None
    if not key:
        raise Failure(
            f"The key of the server is not in the catalog {catalog.location}: was one "
            "given to the server, with --key? Then give it here, too.",
            exit_codes.USAGE,
        )
    return key
