"""The section `[pair]`: this server runs the syphon of a paired namespace (P12).

    [pair]
    primary = "env:SITE_A"          # or file:PATH, or the connection string itself
    primary_name = "site-a"
    cover = ["orders*", "sales"]

Without `secondary` this server itself has the backlog queues.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from twinbus.client.secret_reference import is_reference, read_reference
from twinbus.config.entities import check_names
from twinbus.config.values import text, whole_number
from twinbus.durations import duration_ms

_MOST_QUEUES: Final = 1_000
_GRACE_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PairConfig:
    """What the server is told about a pair."""

    primary: str = field(repr=False)
    # Empty: this server.
    secondary: str = field(default="", repr=False)
    # Empty: the first part of the primary's host.
    primary_name: str = ""
    # What stands for the secondary in the primary's ledger; empty: its host.
    secondary_name: str = ""
    # Patterns of the entities that messages may go to.
    cover: tuple[str, ...] = ("*",)
    # How many backlog queues this server has at least, if it is the secondary.
    backlog_queue_count: int = 10
    count_backlog_against_ttl: bool = False
    # Nothing overtakes what somebody who is gone has left locked.
    keep_session_order: bool = False
    missing_entity_grace_ms: int = _GRACE_MS


def pair_of_table(
    section: Mapping[str, Any], environment: Mapping[str, str]
) -> PairConfig:
    """The section, with its secrets looked up. Raises ValueError, which has none."""
    check_names(section, tuple(_READERS), "pair", "setting")
    values: dict[str, Any] = {}
    for name, written in section.items():
        try:
            value = _looked_up(written, environment) if name in _SIDES else written
            values[name] = _READERS[name](value)
        except ValueError as error:
            raise ValueError(f"[pair] {name}: {error}") from None
    if not values.get("primary"):
        raise ValueError("[pair] primary: is missing; give a connection string")
    grace_ms = values.pop("missing_entity_grace", _GRACE_MS)
    return PairConfig(**values, missing_entity_grace_ms=grace_ms)


def _looked_up(value: object, environment: Mapping[str, str]) -> object:
    """A connection string may be in a variable, or in a file."""
    if isinstance(value, str) and is_reference(value):
        return read_reference(value, environment)
    return value


def _connection_string(value: object) -> str:
    # Errors do not repeat it: it is a secret.
    if not isinstance(value, str):
        raise ValueError("is not a text")
    if value.strip() and "endpoint=" not in value.lower():
        raise ValueError(
            "is not a connection string: it must begin with Endpoint=sb://, or be "
            "env:NAME or file:PATH"
        )
    return value.strip()


def _patterns(value: object) -> tuple[str, ...]:
    given = value if isinstance(value, list) else [value]
    patterns = tuple(one for one in given if isinstance(one, str) and one)
    if not patterns or len(patterns) < len(given):
        raise ValueError("give patterns such as 'orders*', or '*' for all")
    return patterns


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value


_SIDES: Final = ("primary", "secondary")
_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "primary": _connection_string,
    "secondary": _connection_string,
    "primary_name": text().read,
    "secondary_name": text().read,
    "cover": _patterns,
    "backlog_queue_count": whole_number(1, _MOST_QUEUES).read,
    "count_backlog_against_ttl": _flag,
    "keep_session_order": _flag,
    "missing_entity_grace": duration_ms,
}
"""How each setting of the section is read."""
