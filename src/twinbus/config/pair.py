"""The section `[pair]`: this server runs the syphon of a paired namespace (P12).

    [pair]
    primary = "env:SITE_A"          # or file:PATH, or the connection string itself
    primary_name = "site-a"
    cover = ["orders*", "sales"]

Without `secondary` this server itself has the backlog queues.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from twinbus.client.secret_reference import (
    UnreadableReference,
    is_reference,
    read_reference,
)
from twinbus.config.entities import check_names
from twinbus.durations import duration_ms

_MOST_QUEUES: Final = 1_000


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
    missing_entity_grace_ms: int = 3_600_000


_NAMES: Final = (
    *("primary", "secondary", "primary_name", "secondary_name", "cover"),
    *("backlog_queue_count", "count_backlog_against_ttl", "keep_session_order"),
    "missing_entity_grace",
)


def pair_of_table(
    section: Mapping[str, Any], environment: Mapping[str, str]
) -> PairConfig:
    """The section, with its secrets looked up. Raises ValueError, which has none."""
    check_names(section, _NAMES, "pair", "setting")
    primary = _secret(section, "primary", environment)
    if not primary:
        raise ValueError("[pair] primary: is missing; give a connection string")
    grace = section.get("missing_entity_grace", "1h")
    try:
        grace_ms = duration_ms(grace)
    except ValueError as error:
        raise ValueError(f"[pair] missing_entity_grace: {error}") from None
    return PairConfig(
        primary=primary,
        secondary=_secret(section, "secondary", environment),
        primary_name=_text(section, "primary_name"),
        secondary_name=_text(section, "secondary_name"),
        cover=_patterns(section.get("cover", "*")),
        backlog_queue_count=_count(section.get("backlog_queue_count", 10)),
        count_backlog_against_ttl=_flag(section, "count_backlog_against_ttl"),
        keep_session_order=_flag(section, "keep_session_order"),
        missing_entity_grace_ms=grace_ms,
    )


def _text(section: Mapping[str, Any], name: str) -> str:
    value = section.get(name, "")
    if not isinstance(value, str):
        raise ValueError(f"[pair] {name}: {value!r} is not a text")
    return value


def _secret(
    section: Mapping[str, Any], name: str, environment: Mapping[str, str]
) -> str:
    """A connection string: itself, in a variable, or in a file."""
    value = section.get(name, "")
    if not isinstance(value, str):
        raise ValueError(f"[pair] {name}: is not a text")
    if is_reference(value):
        try:
            value = read_reference(value, environment)
        except UnreadableReference as error:
            raise ValueError(f"[pair] {name}: {error}") from None
    value = value.strip()
    if value and "endpoint=" not in value.lower():
        raise ValueError(
            f"[pair] {name}: is not a connection string: it must begin with "
            "Endpoint=sb://, or be env:NAME or file:PATH"
        )
    return value


def _patterns(value: object) -> tuple[str, ...]:
    given = value if isinstance(value, list) else [value]
    patterns = tuple(one for one in given if isinstance(one, str) and one)
    if not patterns or len(patterns) < len(given):
        raise ValueError(
            "[pair] cover: give patterns such as 'orders*', or '*' for all"
        )
    return patterns


def _count(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        if 1 <= value <= _MOST_QUEUES:
            return value
    raise ValueError(
        f"[pair] backlog_queue_count: {value!r} is not from 1 to {_MOST_QUEUES}"
    )


def _flag(section: Mapping[str, Any], name: str) -> bool:
    value = section.get(name, False)
    if not isinstance(value, bool):
        raise ValueError(f"[pair] {name}: {value!r} is neither true nor false")
    return value
