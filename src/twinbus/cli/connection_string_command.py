"""`twinbus connection-string`: what a client of this machine's bus is given.

It reads the settings as `serve` does, and the key in the data folder. It asks no
server, so the port is the one of the settings.
"""

import json
import os
from typing import Annotated, Final

import typer

from twinbus.cli.bus_flags import ConfigFile, Data, Host, Port
from twinbus.cli.command_group import examples
from twinbus.cli.entity_flags import Json

EXAMPLES: Final = examples(
    "twinbus connection-string",
    "twinbus connection-string --data /var/lib/twinbus --entity orders",
    "twinbus connection-string --tls --json",
)


def connection_string(
    config: ConfigFile = None,
    data: Data = None,
    host: Host = None,
    port: Port = None,
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
