"""`twinbus connection-string`: what a client of this machine's bus is given.

It reads the settings as `serve` does, and the key in the data folder. It asks no
server, so the port is the one of the settings.
"""

import json
import os
from pathlib import Path
from typing import Annotated, Final

import typer

from twinbus.cli.entity_flags import Json
from twinbus.cli.flags import examples, setting

EXAMPLES: Final = examples(
    "twinbus connection-string",
    "twinbus connection-string --data /var/lib/twinbus --entity orders",
    "twinbus connection-string --tls --json",
)

_Setting = str | None


def connection_string(
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            help="Settings, as `serve` was given. (TWINBUS_CONFIG)",
            metavar="FILE",
            envvar="TWINBUS_CONFIG",
            show_envvar=False,
        ),
    ] = None,
    data: Annotated[
        _Setting, setting("--data", "Folder that the bus keeps. Default: data.", "DIR")
    ] = None,
    host: Annotated[
        _Setting, setting("--host", "Host of the server. Default: 127.0.0.1.", "HOST")
    ] = None,
    port: Annotated[
        _Setting, setting("--port", "Port of the server. Default: 5672.", "PORT")
    ] = None,
    is_tls: Annotated[
        bool, typer.Option("--tls", help="For clients that connect by TLS.")
    ] = False,
    entity: Annotated[
        str,
        typer.Option(
            "--entity", help="Name the entity, too.", metavar="NAME", show_default=False
        ),
    ] = "",
    is_json: Json = False,
) -> None:
    """Print the connection string of a bus on this machine, with its key.

    Whoever reads it can do everything: keep it out of logs.
    """
    flags: dict[str, object] = {"data": data, "host": host, "port": port}
    from twinbus.cli.root_connection import root_connection
    from twinbus.cli.settings import settings

    found = root_connection(settings(config, os.environ, flags), is_tls, entity)
    print(json.dumps(found, indent=2) if is_json else found["connection_string"])
