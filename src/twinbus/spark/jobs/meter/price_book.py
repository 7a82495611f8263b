"""Price books: how many billed operations an interaction is, as data.

A book is a TOML file. Two come with the package; a path names any other.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Final

BUILT_IN: Final = ("documents", "service")

OPERATIONS: Final = frozenset(
    {
        *("send", "schedule", "activate", "lock", "receive_and_delete", "complete"),
        *("abandon", "defer", "dead_letter", "release", "lock_expired", "expire"),
        *("cancel", "delete", "renew", "peek", "refuse", "duplicate", "forward"),
        *("ping", "revoke", "receive_empty", "divert", "restore", "administration"),
        "arrive",
    }
)
"""What a log may hold, and so what a book may count."""

_FIELDS: Final = frozenset(
    {
        *("name", "title", "currency", "price_per_million", "unit_bytes", "by_size"),
        "counts",
    }
)


class PriceBookError(ValueError):
    """A price book cannot be used; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceBook:
    """How interactions are counted, and what a million costs."""

    name: str
    title: str
    currency: str
    price_per_million: float
    # Interactions of `by_size` count once for each so many bytes; 0: once.
    unit_bytes: int
    by_size: frozenset[str]
    # Billed operations of one interaction; what is not named costs nothing.
    counts: Mapping[str, float]

    def cost(self, billed: float) -> float:
        return billed * self.price_per_million / 1_000_000

    def of_message(self, size_bytes: int, *operations: str) -> float:
        """Billed operations of a message of a size that goes through these."""
        units = max(-(-size_bytes // self.unit_bytes), 1) if self.unit_bytes else 1
        return sum(
            self.counts.get(name, 0) * (units if name in self.by_size else 1)
            for name in operations
        )


def price_book(name: str) -> PriceBook:
    """A book by its name, or by the path of its file. Raises PriceBookError."""
    if name in BUILT_IN:
        place = resources.files("twinbus.spark.jobs.meter") / "books" / f"{name}.toml"
        text = place.read_text()
    else:
        try:
            text = Path(name).read_text()
        except OSError as error:
            known = ", ".join(BUILT_IN)
            raise PriceBookError(
                f"Price book '{name}': {error.strerror}. Give a file, or one of: "
                f"{known}."
            ) from None
    try:
        return _book(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as error:
        said = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise PriceBookError(f"Price book '{name}': {said}.") from None


def _book(content: dict[str, Any]) -> PriceBook:
    unknown = sorted(set(content) - _FIELDS)
    counts = {str(name): float(count) for name, count in content["counts"].items()}
    by_size = frozenset(str(name) for name in content["by_size"])
    unknown += sorted((set(counts) | by_size) - OPERATIONS)
    if unknown:
        raise ValueError(f"'{unknown[0]}' is not known in a price book")
    if content["unit_bytes"] < 0 or content["price_per_million"] < 0:
        raise ValueError("unit_bytes and price_per_million must not be negative")
    return PriceBook(
        name=str(content["name"]),
        title=str(content["title"]),
        currency=str(content["currency"]),
        price_per_million=float(content["price_per_million"]),
        unit_bytes=int(content["unit_bytes"]),
        by_size=by_size,
        counts=counts,
    )
