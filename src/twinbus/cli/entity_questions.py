"""Asks the server and shows its answer, for all commands about entities.

`flags` are those of a command that takes `entity_flags.SERVER`.
"""

import json
from collections.abc import Mapping
from typing import Any


def ask_server(flags: Mapping[str, Any], operation: str, **arguments: str) -> Any:
    """The answer of the server that the flags name. Raises Failure."""
    from twinbus.cli.administration import ask
    from twinbus.cli.server_choice import chosen_server

    return ask(chosen_server(flags), operation, arguments)


def show(entity: Any, flags: Mapping[str, Any]) -> None:
    from twinbus.cli.entity_tables import print_entity

    if flags["is_json"]:
        print(json.dumps(entity, indent=2))
    else:
        print_entity(entity)
