"""Dead letters as a table for people and as JSON for scripts."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from rich.markup import escape
from rich.table import Table

from twinbus.cli.dead_letters import DeadLetter
from twinbus.cli.entity_tables import console, readable_age


def as_json(dead_letter: DeadLetter) -> dict[str, Any]:
    """The JSON for scripts; its shape does not change."""
    return asdict(dead_letter)


def print_dead_letters(found: Iterable[DeadLetter], *, is_backlog: bool) -> None:
    table = Table(box=None, pad_edge=False)
    if is_backlog:
        table.add_column("backlog queue", overflow="fold")
        table.add_column("for", overflow="fold")
    table.add_column("number", justify="right")
    table.add_column("age", justify="right")
    for heading in ("message id", "reason", "description"):
        table.add_column(heading, overflow="fold")
    for item in found:
        where = (item.entity, item.path) if is_backlog else ()
        texts = (item.message_id, item.reason, item.description)
        table.add_row(
            *map(escape, where),
            str(item.sequence_number),
            readable_age(item.age_ms),
            *map(_one_line, texts),
        )
    console().print(table)


def _one_line(text: str) -> str:
    """A text from a stranger on one line, without control characters."""
    return escape("".join(c if c.isprintable() else " " for c in text))
