"""`twinbus connection-string`: prints what a client of this machine's bus needs.

It reads the settings as `serve` does, and the key in the data folder. It asks no
server, so the port is the one of the settings.
"""

import json
from typing import Annotated, Any, Final

import typer

from twinbus.cli.bus_flags import ADDRESS
from twinbus.cli.command_group import examples
from twinbus.cli.entity_flags import Json
from twinbus.cli.flags import takes

EXAMPLES: Final = examples(
    "twinbus connection-string",
    "twinbus connection-string --data /var/lib/twinbus --entity orders",
    "twinbus connection-string --tls --json",
)


@takes(*ADDRESS)
def connection_string(
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
    **flags: Any,
) -> None:
    """Print the connection string of a bus on this machine, with its key.

    Whoever reads it can do everything: keep it out of logs.
    """
    from twinbus.cli.root_connection import root_connection
    from twinbus.cli.settings import settings

    found = root_connection(settings(**flags), is_tls, entity)
    print(json.dumps(found, indent=2) if is_json else found["connection_string"])
