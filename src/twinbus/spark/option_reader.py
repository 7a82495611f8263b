"""Reads Spark's options: texts become checked values.

Letter case of names does not matter. An error names the option, its value and what it
may be. An unknown option is an error, too, which suggests the most similar one, or what
takes the place of an option of Kafka or Event Hubs.
"""

import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Final

from twinbus.durations import duration_ms
from twinbus.spark.foreign_names import counterpart
from twinbus.spark.plain_error import PlainError

_SIZE: Final = re.compile(r"(\d{1,15})\s*([kmgt]?)i?b?", re.IGNORECASE | re.ASCII)
_FACTORS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_PLAIN_DURATION: Final = re.compile(r"(\d{1,9})\s*(ms|s|m|h)?", re.ASCII)
_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)

_SPARKS_OWN: Final = frozenset(("checkpointlocation", "queryname", "outputmode"))
"""Options of Spark itself, which it also passes to sources and sinks."""


_TABLE_PROPERTIES: Final = frozenset(("provider", "owner"))


class OptionError(PlainError, ValueError):
    """An option is wrong; the text says which, and what to do."""


def _hint(name: str, by_lower: Mapping[str, str]) -> str:
    """What was probably meant."""
    use = counterpart(name)
    if use is not None:
        return f" Use {use}."
    close = get_close_matches(name, by_lower, n=1)
    return f" Did you mean '{by_lower[close[0]]}'?" if close else ""


class OptionReader:
    """The options of one `load` or `save`."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._values = {name.lower(): value for name, value in options.items()}

    def check_known(self, known: Collection[str]) -> None:
        """Raises OptionError for an unknown option."""
        by_lower = {name.lower(): name for name in known}
        for name in self._values:
            if name in by_lower or name in _SPARKS_OWN or name.startswith("spark."):
                continue
            raise OptionError(
                f"'{name}' is not an option of the format servicebus."
                f"{_hint(name, by_lower)} There are: "
                f"{', '.join(sorted(known, key=str.lower))}."
            )
        self._check_secrets()

    def _check_secrets(self) -> None:
        """Raises OptionError for a connection string in a wrong option: other options
        are shown in logs and plans."""
        for name, value in self._values.items():
            if "sharedaccess" in str(value).lower() and name != "connectionstring":
                raise OptionError(
                    f"'{name}' has a connection string in it, or a token. Give that as "
                    "'connectionString', or name where it is by 'credential'."
                )

    def check_no_table(self) -> None:
        """Raises OptionError if Spark asks for a table of its catalog. It would keep
        the table, but not its options, so nobody could read it. When a table is made,
        Spark adds properties of it to the options; later, there are none at all."""
        if not self._values or _TABLE_PROPERTIES <= self._values.keys():
            raise OptionError(
                "CREATE TABLE ... USING servicebus does not work: Spark's catalog "
                "does not keep the options of such a table. Use CREATE TEMPORARY VIEW "
                "NAME USING servicebus OPTIONS (credential '...', entities '...') to "
                "read in SQL, and df.write.format('servicebus') to send."
            )

    def text(self, name: str) -> str | None:
        """The value without blanks around it; None if it is missing or empty."""
        value = self._values.get(name.lower())
        value = None if value is None else str(value).strip()
        return value or None

    def choice(self, name: str, choices: Collection[str], default: str) -> str:
        value = (self.text(name) or default).lower()
        if value not in choices:
            raise OptionError(
                f"'{name}' is '{value}'; it must be one of {', '.join(choices)}."
            )
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.choice(name, ("true", "false"), str(default).lower())
        return value == "true"

    def number(self, name: str, low: int, high: int, default: int) -> int:
        found = self.optional_number(name, low, high)
        return default if found is None else found

    def optional_number(self, name: str, low: int, high: int) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        digits = text.replace("_", "")
        if not digits.isascii() or not digits.isdigit() or len(digits) > 19:
            raise OptionError(f"'{name}' is '{text[:40]}'; it must be a whole number.")
        value = int(digits)
        if not low <= value <= high:
            raise OptionError(f"'{name}' is {value}; it must be from {low} to {high}.")
        return value

    def size(self, name: str, low: int, high: int, default: int) -> int:
        """Bytes, as 1048576, 512k, 256m or 4g."""
        text = self.text(name)
        if text is None:
            return default
        match = _SIZE.fullmatch(text)
        if match is None:
            raise OptionError(
                f"'{name}' is '{text[:40]}'; it must be a size, such as 256m or 4g."
            )
        value = int(match[1]) * _FACTORS[match[2].lower()]
        if not low <= value <= high:
            raise OptionError(
                f"'{name}' is {value} bytes; it must be from {low} to {high}."
            )
        return value

    def milliseconds(self, name: str, low: int, high: int, default: int) -> int:
        """A duration, as 30s, 5m, 1h, or ISO 8601 (PT5M)."""
        text = self.text(name)
        if text is None:
            return default
        match = _PLAIN_DURATION.fullmatch(text.lower())
        try:
            if match is not None:
                value = int(match[1]) * _UNITS_MS[match[2] or "s"]
            else:
                value = duration_ms(text)
        except ValueError:
            raise OptionError(
                f"'{name}' is '{text[:40]}'; it must be a duration, such as 30s, 5m "
                "or PT5M."
            ) from None
        if not low <= value <= high:
            raise OptionError(
                f"'{name}' is {value / 1000:g} s; it must be from {low / 1000:g} to "
                f"{high / 1000:g} s."
            )
        return value

    def instant(self, name: str) -> int | None:
        """A time in ISO 8601, as milliseconds since the epoch; UTC unless it says
        otherwise."""
        text = self.text(name)
        if text is None:
            return None
        try:
            read = datetime.fromisoformat(text)
        except ValueError:
            raise OptionError(
                f"'{name}' is '{text[:40]}'; it must be a time in ISO 8601, such as "
                "2026-11-16T08:00:00Z."
            ) from None
        aware = read if read.tzinfo is not None else read.replace(tzinfo=UTC)
        # Messages have whole milliseconds, and none is older than the epoch. Parts of a
        # millisecond are rounded up: messages of that millisecond came before.
        return max(0, -((_EPOCH - aware) // _MILLISECOND))
