"""Loads the configuration for a command; its errors end the command."""

import os
from pathlib import Path

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.config.config import Config, ConfigError, load_config


def settings(config: Path | None = None, **flags: object) -> Config:
    """The configuration from all sources. Raises Failure."""
    try:
        return load_config(config, os.environ, flags)
    except ConfigError as error:
        raise Failure(str(error), exit_codes.USAGE) from None
