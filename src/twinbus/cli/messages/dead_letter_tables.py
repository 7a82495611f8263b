"""Dead letters for people and as JSON for scripts."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from rich.markup import escape

from twinbus.cli.entity_tables import readable_age
from twinbus.cli.messages.dead_letters import DeadLetter
from twinbus.cli.messages.message_output import shown_lines
from twinbus.cli.tables import console, one_line


def as_json(dead_letter: DeadLetter) -> dict[str, Any]:
    """The JSON for scripts; what it has does not change."""
    return asdict(dead_letter)


def print_dead_letters(found: Iterable[DeadLetter], *, is_backlog: bool) -> None:
    """Each with its reason first, then properties and body."""
    screen = console()
    for item in found:
        if is_backlog:
            where = f"{item.entity} for {item.path}"
            screen.print(escape(one_line(where)), style="bold", soft_wrap=True)
        heading, *lines = shown_lines(item.message)
        screen.print(f"{heading}  {readable_age(item.age_ms)} ago", soft_wrap=True)
        for line in lines:
            screen.print(line, soft_wrap=True)
