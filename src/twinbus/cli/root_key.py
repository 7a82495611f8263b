"""The key with all rights: from the settings, or from the data folder."""

import os

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.config.config import Config, ConfigError
from twinbus.process.data_folder import kept_root_key


def root_key(config: Config, instead: str = "") -> str:
    """Raises Failure; `instead` says what else a user of the command may give."""
    if config.key:
        return config.key
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
