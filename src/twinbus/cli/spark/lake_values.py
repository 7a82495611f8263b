"""What commands about lakes share: values of flags, and what is printed."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.spark.option_reader import OptionError, OptionReader

_LONGEST_MS = 7 * 24 * 3_600_000
_LARGEST = 1 << 36


@contextmanager
def _told(flag: str) -> Iterator[None]:
    try:
        yield
    except OptionError as error:
        text = str(error).replace(f"'{flag}'", f"--{flag}")
        raise Failure(text, exit_codes.USAGE) from None


def milliseconds(flag: str, text: str, least_ms: int = 0) -> int:
    """A duration, as 30s. Raises Failure."""
    with _told(flag):
        return OptionReader({flag: text}).milliseconds(flag, least_ms, _LONGEST_MS, 0)


def size(flag: str, text: str) -> int:
    """Bytes, as 256m. Raises Failure."""
    with _told(flag):
        return OptionReader({flag: text}).size(flag, 1, _LARGEST, 0)


def instant(flag: str, text: str | None) -> int | None:
    """Milliseconds since the epoch. Raises Failure."""
    with _told(flag):
        return OptionReader({flag: text or ""}).instant(flag)


def print_json(content: Mapping[str, Any]) -> None:
    print(json.dumps(content, indent=2))


def shown_time(at: int) -> str:
    return datetime.fromtimestamp(at // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
