"""`twinbus dead-letters`: look at dead letters, send them again, remove them.

Of a queue or subscription, or of all backlog queues of a primary (`--backlog`). They
work with the vendor's SDK, so the namespace may be of any kind.
"""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final

import typer

from twinbus.cli import exit_codes
from twinbus.cli.command_group import examples, group
from twinbus.cli.connection_strings import PRIMARY, SECONDARY, connection_string
from twinbus.cli.dead_letter_choice import Choice
from twinbus.cli.entity_flags import ConnectionString, Data, Json, Port
from twinbus.cli.failure import Failure
from twinbus.cli.pair_flags import PrimaryName, Secondary, Yes, require_sdk

Entity = Annotated[
    str | None,
    typer.Argument(
        metavar="ENTITY",
        help="Path of a queue, or TOPIC/Subscriptions/NAME.",
        show_default=False,
    ),
]
Backlog = Annotated[
    bool,
    typer.Option(
        "--backlog", help="All backlog queues of --primary-name on --secondary instead."
    ),
]
Limit = Annotated[
    int, typer.Option("--limit", metavar="N", min=1, help="Show so many of an entity.")
]
Numbers = Annotated[
    list[int] | None,
    typer.Option(
        "--sequence-number", metavar="N", help="This one; may be given several times."
    ),
]
Count = Annotated[
    int | None,
    typer.Option("--count", metavar="N", min=1, help="So many, from the first."),
]
All = Annotated[bool, typer.Option("--all", help="All of them.")]

_EXAMPLES: Final = (
    "twinbus dead-letters list orders",
    "twinbus dead-letters list --backlog --primary-name site-a --secondary file:site-b",
    "twinbus dead-letters resubmit orders --all",
)

app = group(
    "dead-letters",
    "List dead letters, send them again, or remove them.",
    examples(*_EXAMPLES),
)


@app.command("list", epilog=examples(*_EXAMPLES[:2]))
def _list(
    entity: Entity = None,
    is_backlog: Backlog = False,
    primary_name: PrimaryName = None,
    secondary: Secondary = None,
    limit: Limit = 100,
    connection: ConnectionString = None,
    data: Data = None,
    port: Port = None,
    is_json: Json = False,
) -> None:
    """List dead letters with their reasons, oldest first."""
    target = _target(entity, is_backlog, primary_name)
    text = _namespace(is_backlog, secondary, connection, data, port)
    require_sdk()
    import asyncio

    from twinbus.cli.dead_letter_tables import as_json, print_dead_letters
    from twinbus.cli.dead_letters import listed

    found = asyncio.run(listed(text, target, limit, is_backlog=is_backlog))
    if is_json:
        print(json.dumps([as_json(item) for item in found], indent=2))
    elif found:
        print_dead_letters(found, is_backlog=is_backlog)
    else:
        print("There are no dead letters.")


@app.command(
    "resubmit",
    epilog=examples(
        "twinbus dead-letters resubmit orders --all",
        "twinbus dead-letters resubmit orders --sequence-number 7",
        "twinbus dead-letters resubmit --backlog --primary-name site-a --all",
    ),
)
def _resubmit(
    entity: Entity = None,
    is_backlog: Backlog = False,
    primary_name: PrimaryName = None,
    secondary: Secondary = None,
    is_all: All = False,
    count: Count = None,
    numbers: Numbers = None,
    connection: ConnectionString = None,
    data: Data = None,
    port: Port = None,
    is_json: Json = False,
) -> None:
    """Send dead letters to the queue that they come from, and remove them there.

    Those of a backlog queue go back into it, and the syphon tries them again.
    """
    target = _target(entity, is_backlog, primary_name)
    choice = _choice(is_all, count, numbers, is_backlog=is_backlog)
    text = _namespace(is_backlog, secondary, connection, data, port)
    require_sdk()
    import asyncio

    from twinbus.cli.dead_letters import resubmitted_all

    with _progress("resubmitted") as progress:
        done = asyncio.run(
            resubmitted_all(text, target, choice, progress, is_backlog=is_backlog)
        )
    print(json.dumps({"resubmitted": done}) if is_json else f"Resubmitted: {done}.")


@app.command(
    "remove",
    epilog=examples(
        "twinbus dead-letters remove orders --sequence-number 7 --yes",
        "twinbus dead-letters remove events/Subscriptions/audit --all --yes",
    ),
)
def _remove(
    entity: Entity = None,
    is_backlog: Backlog = False,
    primary_name: PrimaryName = None,
    secondary: Secondary = None,
    is_all: All = False,
    count: Count = None,
    numbers: Numbers = None,
    is_sure: Yes = False,
    connection: ConnectionString = None,
    data: Data = None,
    port: Port = None,
    is_json: Json = False,
) -> None:
    """Remove dead letters for good."""
    target = _target(entity, is_backlog, primary_name)
    choice = _choice(is_all, count, numbers, is_backlog=is_backlog)
    text = _namespace(is_backlog, secondary, connection, data, port)
    require_sdk()
    if not is_sure:
        _make_sure(target)
    import asyncio

    from twinbus.cli.dead_letters import removed_all

    with _progress("removed") as progress:
        done = asyncio.run(
            removed_all(text, target, choice, progress, is_backlog=is_backlog)
        )
    print(json.dumps({"removed": done}) if is_json else f"Removed: {done}.")


def _target(entity: str | None, is_backlog: bool, primary_name: str | None) -> str:
    """Path of an entity, or the name of a primary. Raises Failure."""
    if is_backlog == (entity is not None):
        raise Failure("Give the path of an entity, or --backlog.", exit_codes.USAGE)
    if entity is not None:
        return entity
    from twinbus.cli.pair_questions import backlog_name

    other = None
    if primary_name is None and PRIMARY in os.environ:
        other = connection_string(None, "--primary", PRIMARY, os.environ)
    return backlog_name(other, primary_name)


def _namespace(
    is_backlog: bool,
    secondary: str | None,
    connection: str | None,
    data: str | None,
    port: str | None,
) -> str:
    """The connection string of the namespace that is meant. Raises Failure."""
    if is_backlog:
        return connection_string(secondary, "--secondary", SECONDARY, os.environ)
    from twinbus.cli.server_address import CONNECTION_STRING_VARIABLE, server_address
    from twinbus.cli.settings import settings

    variable = CONNECTION_STRING_VARIABLE
    if connection or os.environ.get(variable):
        return connection_string(
            connection, "--connection-string", variable, os.environ
        )
    config = settings(None, os.environ, {"data": data, "port": port})
    return server_address(None, config, {}).connection_string


def _choice(
    is_all: bool, count: int | None, numbers: list[int] | None, *, is_backlog: bool
) -> Choice:
    """Which dead letters are meant. Raises Failure."""
    if sum((is_all, count is not None, bool(numbers))) != 1:
        text = "Say which: --all, --count N, or --sequence-number N."
        raise Failure(text, exit_codes.USAGE)
    if is_backlog and not is_all:
        raise Failure(
            "With --backlog it is --all. For some of them, give the path of a backlog "
            "queue and the connection string of the secondary.",
            exit_codes.USAGE,
        )
    return Choice(numbers=frozenset(numbers or ()), count=count)


def _make_sure(target: str) -> None:
    """Messages do not come back; a script has to say that it means it."""
    what = f"dead letters of '{target}'"
    if not sys.stdin.isatty():
        raise Failure(
            f"Nobody can be asked whether to remove {what}: give --yes.",
            exit_codes.USAGE,
        )
    typer.confirm(f"Remove {what}?", abort=True, err=True)


@contextmanager
def _progress(verb: str) -> Iterator[Any]:
    """A counter that runs, where somebody is looking."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda count: None
        return
    with console.status("") as status:
        yield lambda count: status.update(f"{count} {verb}")
