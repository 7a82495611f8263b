"""Flags of commands that show messages of an entity."""

from typing import Annotated, Final

import typer

from twinbus.cli import exit_codes
from twinbus.cli.completion import source_paths
from twinbus.cli.entity_flags import SERVER
from twinbus.cli.failure import Failure
from twinbus.cli.flags import flag

Source = Annotated[
    str,
    typer.Argument(
        metavar="ENTITY",
        help="Path of a queue, or TOPIC/Subscriptions/NAME; either may have "
        "/$DeadLetterQueue at its end.",
        autocompletion=source_paths,
    ),
]
DeadLetters = Annotated[
    bool, typer.Option("--dead-letters", help="The dead letters of the entity.")
]
Body = Annotated[
    bool,
    typer.Option("--body", help="Print bodies alone, each with a line break behind."),
]
Raw = Annotated[
    bool,
    typer.Option(
        "--raw", help="JSON has the whole message, too: the encoded bytes in base64."
    ),
]
JsonLines = Annotated[
    bool,
    typer.Option("--json", help="Print JSON, one line for each message, for scripts."),
]

OUTPUT: Final = (
    flag("is_body", Body, default=False),
    flag("has_raw", Raw, default=False),
)
# The last of the flags of a server is --json.
SHOWING_SERVER: Final = (*SERVER[:-1], flag("is_json", JsonLines, default=False))

_SUFFIX: Final = "/$DeadLetterQueue"


def source_path(entity: str, *, is_dead_letters: bool) -> str:
    """The path that is received from. Raises Failure."""
    path = entity.strip("/")
    if not path:
        raise Failure("Give the path of an entity.", exit_codes.USAGE)
    if is_dead_letters and not path.lower().endswith(_SUFFIX.lower()):
        path += _SUFFIX
    return path
