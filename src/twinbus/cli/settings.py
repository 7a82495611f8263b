"""Loads the configuration for a command; its errors end the command."""

from collections.abc import Mapping
from pathlib import Path

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.config.config import Config, ConfigError, load_config


def settings(
    file: Path | None, environment: Mapping[str, str], flags: Mapping[str, object]
) -> Config:
    """The configuration from all sources. Raises Failure."""
    try:
        return load_config(file, environment, flags)
    except ConfigError as error:
        raise Failure(str(error), exit_codes.USAGE) from None
