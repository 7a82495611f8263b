"""Flags of commands about pairs."""

import importlib.util
from typing import Annotated

import typer

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure

Primary = Annotated[
    str | None,
    typer.Option(
        "--primary",
        metavar="TEXT",
        help="Connection string of the primary, or file:PATH. (TWINBUS_PRIMARY)",
    ),
]
Secondary = Annotated[
    str | None,
    typer.Option(
        "--secondary",
        metavar="TEXT",
        help="Connection string of the secondary, with the Manage right, or file:PATH. "
        "(TWINBUS_SECONDARY)",
    ),
]
PrimaryName = Annotated[
    str | None,
    typer.Option(
        "--primary-name",
        metavar="NAME",
        help="The primary's name in the paths of its backlog queues. Default: the "
        "first part of the primary's host.",
    ),
]
Cover = Annotated[
    list[str] | None,
    typer.Option(
        "--cover",
        metavar="PATTERN",
        help="Entities that messages may go to, such as 'orders*'; may be given "
        "several times. Default: all.",
    ),
]
CountsBacklog = Annotated[
    bool,
    typer.Option(
        "--count-backlog-against-ttl",
        help="The time in the backlog is part of a message's time to live.",
    ),
]


def require_sdk() -> None:
    """Raises Failure if the vendor's SDK, which is an extra, is not installed."""
    for module in ("azure.servicebus", "aiohttp"):
        try:
            is_there = importlib.util.find_spec(module) is not None
        except ModuleNotFoundError:
            is_there = False
        if not is_there:
            raise Failure(
                f"This command needs the package {module.replace('.', '-')}: pip "
                "install 'twinbus[pairing]'.",
                exit_codes.FAILED,
            )
