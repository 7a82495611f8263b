"""How far long work has come, on stderr, if that is a terminal.

Work that is interrupted says how far it has come, everywhere.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.clock import SystemClock

Progress = Callable[[int], None]
"""Is told how many are done so far."""

_SHOWN_AFTER_SECONDS: Final = 0.5
"""Work that ends sooner shows nothing: a bar that flashes helps nobody."""


@contextmanager
def progress_bar(verb: str, total: int | None) -> Iterator[Progress]:
    """`total` is None if nobody knows it. Raises Failure if the work is interrupted:
    have the loop inside, which raises KeyboardInterrupt at its end."""
    done = 0
    with shown_bar(verb, total) as show:

        def tell(count: int) -> None:
            nonlocal done
            done = count
            show(count)

        try:
            yield tell
        except KeyboardInterrupt:
            raise Failure(
                f"Interrupted. {verb.capitalize()}: {done:,}. What was under way may "
                "be done, too.",
                exit_codes.INTERRUPTED,
            ) from None


@contextmanager
def output_bar(verb: str, total: int | None) -> Iterator[Progress]:
    """Of work that prints what it does: a bar only if that goes somewhere else."""
    if sys.stdout.isatty():
        yield lambda count: None
        return
    with shown_bar(verb, total) as show:
        yield show


@contextmanager
def shown_bar(verb: str, total: int | None) -> Iterator[Progress]:
    """Of work that changes nothing, and prints when it has ended."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda count: None
        return
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    known = (BarColumn(bar_width=20), TimeRemainingColumn(), TextColumn("left"))
    bar = Progress(
        TextColumn("{task.fields[told]}"),
        *((TimeElapsedColumn(),) if total is None else known),
        console=console,
        transient=True,
        # What is printed meanwhile goes where it is to go, and not above the bar.
        redirect_stdout=False,
    )
    clock = SystemClock()
    started_at = clock.monotonic()
    task = bar.add_task("", total=total, told="")
    is_shown = False

    def tell(count: int) -> None:
        nonlocal is_shown
        seconds = (clock.monotonic() - started_at) / 1000
        if not is_shown and seconds >= _SHOWN_AFTER_SECONDS:
            is_shown = True
            bar.start()
        told = f"{verb} {count:,}" + ("" if total is None else f" of {total:,}")
        if seconds > 1:
            told += f" ({count / seconds:,.0f}/s)"
        bar.update(task, completed=count, told=told)

    try:
        yield tell
    finally:
        if is_shown:
            bar.stop()
