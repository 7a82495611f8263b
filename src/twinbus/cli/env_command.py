"""`twinbus env`: the variables by which SDKs find and trust the bus, for a shell.

It reads the settings as `serve` does, and the data folder. It asks no server, so the
port is the one of the settings.
"""

import json
import os
from typing import Annotated, Final

import typer

from twinbus.cli.bus_flags import ConfigFile, Data, Host, Port
from twinbus.cli.command_group import examples
from twinbus.cli.entity_flags import Json

EXAMPLES: Final = examples(
    'eval "$(twinbus env)"',
    'eval "$(twinbus env --data /var/lib/twinbus)"',
    "twinbus env --shell fish | source",
    "twinbus env --json",
)


def env(
    config: ConfigFile = None,
    data: Data = None,
    host: Host = None,
    port: Port = None,
    is_plain: Annotated[
        bool,
        typer.Option("--plain", help="Messages over plain TCP instead of TLS."),
    ] = False,
    shell: Annotated[
        str,
        typer.Option("--shell", help="sh, fish or powershell.", metavar="SHELL"),
    ] = "sh",
    is_json: Json = False,
) -> None:
    """Print what makes the SDKs of a shell find and trust the bus of this machine.

    The connection string is among it, with the key: keep it out of logs.
    """
    flags: dict[str, object] = {"data": data, "host": host, "port": port}
    from twinbus.cli.failure import complain
    from twinbus.cli.sdk_environment import replaced, sdk_environment, shell_lines
    from twinbus.cli.settings import settings

    found = sdk_environment(settings(config, os.environ, flags), is_plain, os.environ)
    text = json.dumps(found, indent=2) if is_json else None
    print(text or "\n".join(shell_lines(found, shell)))
    for line in replaced(found, os.environ):
        complain(f"note: {line}")
