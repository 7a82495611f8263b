"""`twinbus entities`: its commands and flags.

They ask a running server, so what they say and do is what the server says and does.
What a server refuses is told in its words, with the next step.
"""

import json
import os
import sys
from typing import Annotated, Any, Final

import typer

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.cli.flags import examples, group, setting

app = group(
    "entities",
    "Create, list, show, update and delete entities of a running server.",
    examples(
        "twinbus entities create queue orders --lock-duration 30s",
        "twinbus entities list",
    ),
)
_create = group(
    "create",
    "Create an entity.",
    examples("twinbus entities create queue orders"),
)
app.add_typer(_create)

_Text = str | None
_Number = int | None

_Name = Annotated[str, typer.Argument(metavar="NAME", help="Path of the entity.")]
_ConnectionString = Annotated[
    _Text,
    typer.Option(
        "--connection-string",
        metavar="TEXT",
        help="Server and key. Default: the server of this machine. "
        "(TWINBUS_CONNECTION_STRING)",
    ),
]
_Data = Annotated[
    _Text, setting("--data", "Where that server keeps its key. Default: data.", "DIR")
]
_Port = Annotated[
    _Text, setting("--port", "Port of the server of this machine. Default: 5672.", "N")
]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]

_LockDuration = Annotated[
    _Text,
    typer.Option(
        metavar="DURATION",
        help="How long a received message stays locked, 5s to 5m.",
    ),
]
_MaxDeliveryCount = Annotated[
    _Number,
    typer.Option(
        metavar="N", help="Deliveries after which a message is dead-lettered."
    ),
]
_TimeToLive = Annotated[
    _Text,
    typer.Option(
        metavar="DURATION", help="Life of messages that bring none; or: unlimited."
    ),
]
_DeadLettering = Annotated[
    bool | None,
    typer.Option(help="Whether expired messages are dead-lettered or dropped."),
]
_MaxSize = Annotated[
    _Number, typer.Option(metavar="N", help="1024, 2048, 3072, 4096 or 5120.")
]
_MaxMessageSize = Annotated[
    _Number, typer.Option(metavar="N", help="Largest message; 0: the server's limit.")
]
_Status = Annotated[
    _Text,
    typer.Option(
        metavar="STATUS", help="Active, Disabled, SendDisabled or ReceiveDisabled."
    ),
]
_UserMetadata = Annotated[
    _Text, typer.Option(metavar="TEXT", help="A text of yours, kept with the entity.")
]

_PROPERTIES: Final = (
    "lock_duration",
    "max_delivery_count",
    "default_message_time_to_live",
    "dead_lettering_on_message_expiration",
    "max_size_in_megabytes",
    "max_message_size_in_kilobytes",
    "status",
    "user_metadata",
)


def _given(arguments: dict[str, Any]) -> str:
    """The properties among a command's arguments that were given, as JSON."""
    from twinbus.config_entities import entity_properties

    given = {
        name: arguments[name] for name in _PROPERTIES if arguments[name] is not None
    }
    try:
        return json.dumps(entity_properties(given))
    except ValueError as error:
        raise Failure(str(error), exit_codes.USAGE) from None


def _ask(
    connection_string: str | None,
    data: str | None,
    port: str | None,
    operation: str,
    **arguments: str,
) -> Any:
    """The answer of the server that the flags mean. Raises Failure."""
    from twinbus.cli.administration import ask
    from twinbus.cli.server_address import server_address
    from twinbus.cli.settings import settings

    config = settings(None, os.environ, {"data": data, "port": port})
    address = server_address(connection_string, config, os.environ)
    return ask(address, operation, arguments)


def _show(entity: Any, is_json: bool) -> None:
    from twinbus.cli.entity_tables import print_entity

    if is_json:
        print(json.dumps(entity, indent=2))
    else:
        print_entity(entity)


@_create.command(
    "queue",
    epilog=examples(
        "twinbus entities create queue orders",
        "twinbus entities create queue jobs --lock-duration 2m --max-delivery-count 3",
        "twinbus entities create queue events --default-message-time-to-live 1h",
    ),
)
def _create_queue(
    name: _Name,
    lock_duration: _LockDuration = None,
    max_delivery_count: _MaxDeliveryCount = None,
    default_message_time_to_live: _TimeToLive = None,
    dead_lettering_on_message_expiration: _DeadLettering = None,
    max_size_in_megabytes: _MaxSize = None,
    max_message_size_in_kilobytes: _MaxMessageSize = None,
    status: _Status = None,
    user_metadata: _UserMetadata = None,
    connection_string: _ConnectionString = None,
    data: _Data = None,
    port: _Port = None,
    is_json: _Json = False,
) -> None:
    """Create a queue. It can be used when the command returns."""
    server = connection_string, data, port
    properties = _given(locals())
    entity = _ask(*server, "create-queue", path=name, properties=properties)
    _show(entity, is_json)


@app.command(
    "update",
    epilog=examples(
        "twinbus entities update orders --max-delivery-count 5",
        "twinbus entities update orders --status SendDisabled",
    ),
)
def _update(
    name: _Name,
    lock_duration: _LockDuration = None,
    max_delivery_count: _MaxDeliveryCount = None,
    default_message_time_to_live: _TimeToLive = None,
    dead_lettering_on_message_expiration: _DeadLettering = None,
    max_size_in_megabytes: _MaxSize = None,
    max_message_size_in_kilobytes: _MaxMessageSize = None,
    status: _Status = None,
    user_metadata: _UserMetadata = None,
    connection_string: _ConnectionString = None,
    data: _Data = None,
    port: _Port = None,
    is_json: _Json = False,
) -> None:
    """Change properties of an entity; what is not named stays as it is."""
    server = connection_string, data, port
    properties = _given(locals())
    if properties == "{}":
        raise Failure(
            f"Nothing to change of '{name}': give a property, for instance "
            "--max-delivery-count 5.",
            exit_codes.USAGE,
        )
    entity = _ask(*server, "update-queue", path=name, properties=properties)
    _show(entity, is_json)


@app.command(
    "list",
    epilog=examples("twinbus entities list", "twinbus entities list --json"),
)
def _list(
    connection_string: _ConnectionString = None,
    data: _Data = None,
    port: _Port = None,
    is_json: _Json = False,
) -> None:
    """List all entities with their numbers of messages."""
    from twinbus.cli.entity_tables import print_list

    entities = _ask(connection_string, data, port, "list-entities")
    if is_json:
        print(json.dumps(entities, indent=2))
    elif entities:
        print_list(entities)
    else:
        print("There are no entities. 'twinbus entities create queue NAME' makes one.")


@app.command(
    "show",
    epilog=examples(
        "twinbus entities show orders", "twinbus entities show orders --json"
    ),
)
def _show_one(
    name: _Name,
    connection_string: _ConnectionString = None,
    data: _Data = None,
    port: _Port = None,
    is_json: _Json = False,
) -> None:
    """Show properties and numbers of messages of an entity."""
    _show(_ask(connection_string, data, port, "get-entity", path=name), is_json)


@app.command(
    "delete",
    epilog=examples(
        "twinbus entities delete orders", "twinbus entities delete orders --yes"
    ),
)
def _delete(
    name: _Name,
    is_sure: Annotated[
        bool, typer.Option("--yes", help="Do not ask. Needed where nobody can answer.")
    ] = False,
    connection_string: _ConnectionString = None,
    data: _Data = None,
    port: _Port = None,
    is_json: _Json = False,
) -> None:
    """Delete an entity with all messages in it."""
    server = connection_string, data, port
    entity = _ask(*server, "get-entity", path=name)
    if not is_sure:
        _make_sure(entity)
    _ask(*server, "delete-entity", path=name)
    path = entity["path"]
    print(json.dumps({"deleted": path}) if is_json else f"Deleted '{path}'.")


def _make_sure(entity: dict[str, Any]) -> None:
    """Messages do not come back; a script has to say that it means it."""
    what = f"{entity['kind']} '{entity['path']}'"
    count = sum(entity["counts"].values())
    if not sys.stdin.isatty():
        raise Failure(
            f"The {what} and its {count} messages are deleted only with --yes, where "
            "nobody can be asked.",
            exit_codes.USAGE,
        )
    typer.confirm(f"Delete the {what} and its {count} messages?", abort=True, err=True)
