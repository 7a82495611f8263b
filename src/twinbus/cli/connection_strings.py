"""Finds the connection string of a command: in a flag, a variable, or a file.

A connection string is a secret. Other users can see flags in the list of processes, so
a flag may name a file instead (`file:PATH`). Nothing that we print has any part of a
connection string except the host.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure

PRIMARY: Final = "TWINBUS_PRIMARY"
SECONDARY: Final = "TWINBUS_SECONDARY"
"""Variables that name the two sides of a pair."""

_FILE: Final = "file:"


def connection_string(
    given: str | None, flag: str, variable: str, environment: Mapping[str, str]
) -> str:
    """The connection string from the flag or the variable. Raises Failure."""
    text = given or environment.get(variable, "")
    if not text:
        raise Failure(
            f"A connection string is missing: give {flag}, or {variable}. Either may "
            "be file:PATH.",
            exit_codes.USAGE,
        )
    if text.startswith(_FILE):
        text = _content(Path(text.removeprefix(_FILE)), flag if given else variable)
    if "endpoint=" not in text.lower():
        raise Failure(
            f"{flag if given else variable} is not a connection string: it must begin "
            "with Endpoint=sb://, or be file:PATH.",
            exit_codes.USAGE,
        )
    return text.strip()


def _content(file: Path, where: str) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        why = os.strerror(error.errno or 0)
    except UnicodeDecodeError:
        why = "not a text"
    raise Failure(f"{where}: {file}: {why}.", exit_codes.USAGE)
