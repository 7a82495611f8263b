"""Asks the server and shows its answer, for all commands about entities."""

import json
import os
from typing import Any


def ask_server(
    connection_string: str | None,
    data: str | None,
    port: str | None,
    operation: str,
    **arguments: str,
) -> Any:
    """The answer of the server that the flags name. Raises Failure."""
    from twinbus.cli.administration import ask
    from twinbus.cli.server_address import server_address
    from twinbus.cli.settings import settings

    config = settings(None, os.environ, {"data": data, "port": port})
    server = server_address(connection_string, config, os.environ)
    return ask(server, operation, arguments)


def show(entity: Any, is_json: bool) -> None:
    from twinbus.cli.entity_tables import print_entity

    if is_json:
        print(json.dumps(entity, indent=2))
    else:
        print_entity(entity)
