"""`twinbus env`: prints variables for a shell, so that SDKs find and trust the bus.

It reads the settings as `serve` does, and the data folder. It asks no server, so the
port is the one of the settings.
"""

import json
import os
from typing import Annotated, Any, Final

import typer

from twinbus.cli.bus_flags import ADDRESS
from twinbus.cli.command_group import examples
from twinbus.cli.completion import one_of
from twinbus.cli.entity_flags import Json
from twinbus.cli.flags import takes

EXAMPLES: Final = examples(
    'eval "$(twinbus env)"',
    'eval "$(twinbus env --data /var/lib/twinbus)"',
    "twinbus env --shell fish | source",
    "twinbus env --json",
)


@takes(*ADDRESS)
def env(
    is_plain: Annotated[
        bool,
        typer.Option("--plain", help="Messages over plain TCP instead of TLS."),
    ] = False,
    shell: Annotated[
        str,
        typer.Option(
            "--shell",
            help="sh, fish or powershell.",
            metavar="SHELL",
            autocompletion=one_of("sh", "fish", "powershell"),
        ),
    ] = "sh",
    is_json: Json = False,
    **flags: Any,
) -> None:
    """Print shell commands that let SDKs find and trust the bus of this machine.

    They include the connection string with the key: keep them out of logs.
    """
    from twinbus.cli.failure import complain
    from twinbus.cli.sdk_environment import replaced, sdk_environment, shell_lines
    from twinbus.cli.settings import settings

    found = sdk_environment(settings(**flags), is_plain, os.environ)
    text = json.dumps(found, indent=2) if is_json else None
    print(text or "\n".join(shell_lines(found, shell)))
    for line in replaced(found, os.environ):
        complain(f"note: {line}")
