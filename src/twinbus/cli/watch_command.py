"""`twinbus watch`: its flags. What it does is in `watching/`."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from twinbus.cli.command_group import examples
from twinbus.cli.entity_flags import SERVER, Patterns
from twinbus.cli.failure import Failure
from twinbus.cli.flags import takes

if TYPE_CHECKING:
    from rich.text import Text

    from twinbus.cli.watching.bus_look import BusLook

EXAMPLES: Final = examples(
    "twinbus watch",
    "twinbus watch 'orders*' --interval 5s",
    "twinbus watch --count 2 --interval 1s --json",
)


@takes(*SERVER)
def watch(
    patterns: Patterns = None,
    interval: Annotated[
        str, typer.Option("--interval", metavar="DURATION", help="Between two looks.")
    ] = "2s",
    count: Annotated[
        int | None,
        typer.Option(
            "--count",
            metavar="N",
            min=1,
            help="End after N looks. Default: when it is interrupted.",
            show_default=False,
        ),
    ] = None,
    **flags: Any,
) -> None:
    """Show entities live: depth, rates, leases, the backlog of a pair, brokers.

    The busiest entities are shown if there are more than fit. A server that does not
    answer is asked again.
    """
    from twinbus.cli.messages.draft_flags import duration_of

    seconds = duration_of(interval, "--interval") / 1000
    try:
        with _shown(flags) as show:
            before = None
            for number in _numbers(count):
                if number:
                    Event().wait(seconds)
                before = _look(flags, patterns or [], before, show, is_first=not number)
    except KeyboardInterrupt:
        return


def _numbers(count: int | None) -> Iterator[int]:
    number = 0
    while count is None or number < count:
        yield number
        number += 1


Show = Callable[["BusLook | Failure", "BusLook | None"], None]


def _look(
    flags: dict[str, Any],
    patterns: list[str],
    before: "BusLook | None",
    show: Show,
    *,
    is_first: bool,
) -> "BusLook | None":
    from twinbus.cli.watching.bus_look import look

    try:
        now = look(flags, patterns)
    except Failure as failure:
        if is_first:
            raise
        show(failure, None)
        return before
    show(now, before)
    return now


@contextmanager
def _shown(flags: dict[str, Any]) -> Iterator[Show]:
    """JSON lines, a screen that changes, or one table below the other."""
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    from twinbus.cli.server_choice import chosen_server
    from twinbus.cli.tables import console

    if flags["is_json"]:
        yield _print_json
        return
    where = chosen_server(flags).address
    screen = console()
    if not screen.is_terminal:

        def print_table(now: Any, before: Any) -> None:
            for line in [*_lines(now, before, where, screen.width, None), Text("")]:
                screen.print(line, soft_wrap=True)

        yield print_table
        return
    with Live(console=screen, auto_refresh=False, screen=True) as live:
        last: list[Text] = []

        def refresh(now: Any, before: Any) -> None:
            lines = _lines(now, before, where, screen.width, screen.height)
            if isinstance(now, Failure):
                # What was there last, below the trouble.
                lines += [Text(line.plain, "dim") for line in last]
            else:
                last[:] = lines
            live.update(Group(*lines), refresh=True)

        yield refresh


def _print_json(now: Any, before: Any) -> None:
    from twinbus.cli.watching.bus_look import entity_rows
    from twinbus.cli.watching.bus_view import look_json

    if isinstance(now, Failure):
        print(json.dumps({"error": str(now)}), flush=True)
    else:
        print(json.dumps(look_json(now, entity_rows(now, before))), flush=True)


def _lines(
    now: Any, before: Any, where: str, width: int, height: int | None
) -> "list[Text]":
    from rich.text import Text

    from twinbus.cli.watching.bus_look import entity_rows
    from twinbus.cli.watching.bus_view import (
        entity_lines,
        fitting_lines,
        heading_lines,
        height_of,
    )
    from twinbus.clock import SystemClock
    from twinbus.instants import instant_of

    at = instant_of(SystemClock().now()).strftime("%H:%M:%S UTC")
    if isinstance(now, Failure):
        return [Text(f"{at}  {now} Trying again.", "red"), Text("")]
    rows = entity_rows(now, before)
    heading = heading_lines(now, rows, where)
    heading[0].append(f"  {at}")
    lines = [*heading, Text("")]
    if height is None:
        return lines + entity_lines(rows, width, is_short=True)
    return lines + fitting_lines(rows, width, height - height_of(lines, width) - 1)
