"""`twinbus entities`: look at, change and delete what there is.

They ask a running server, so what they say and do is what the server says and does.
What a server refuses is told in its words, with the next step.
"""

import json
import sys
from typing import Annotated, Any

import typer

from twinbus.cli import exit_codes
from twinbus.cli.command_group import examples, group
from twinbus.cli.create_command import app as create
from twinbus.cli.entity_flags import (
    AutoDelete,
    ConnectionString,
    Data,
    DeadLettering,
    DeadLetteringFilterErrors,
    DuplicateWindow,
    ForwardDeadLetters,
    ForwardTo,
    Json,
    LockDuration,
    MaxDeliveryCount,
    MaxMessageSize,
    MaxSize,
    Name,
    Port,
    Status,
    TimeToLive,
    UserMetadata,
    given,
)
from twinbus.cli.entity_questions import ask_server, show
from twinbus.cli.failure import Failure

app = group(
    "entities",
    "Create, list, show, update and delete entities of a running server.",
    examples(
        "twinbus entities create queue orders --lock-duration 30s",
        "twinbus entities list",
    ),
)
app.add_typer(create)


@app.command(
    "update",
    epilog=examples(
        "twinbus entities update orders --max-delivery-count 5",
        "twinbus entities update events/Subscriptions/billing --forward-to invoices",
    ),
)
def _update(
    name: Name,
    lock_duration: LockDuration = None,
    max_delivery_count: MaxDeliveryCount = None,
    default_message_time_to_live: TimeToLive = None,
    dead_lettering_on_message_expiration: DeadLettering = None,
    dead_lettering_on_filter_evaluation_exceptions: DeadLetteringFilterErrors = None,
    max_size_in_megabytes: MaxSize = None,
    max_message_size_in_kilobytes: MaxMessageSize = None,
    status: Status = None,
    user_metadata: UserMetadata = None,
    duplicate_detection_history_time_window: DuplicateWindow = None,
    forward_to: ForwardTo = None,
    forward_dead_lettered_messages_to: ForwardDeadLetters = None,
    auto_delete_on_idle: AutoDelete = None,
    connection_string: ConnectionString = None,
    data: Data = None,
    port: Port = None,
    is_json: Json = False,
) -> None:
    """Change properties of an entity; what is not named stays as it is."""
    server = connection_string, data, port
    properties = given(locals())
    if properties == "{}":
        raise Failure(
            f"Nothing to change of '{name}': give a property, for instance "
            "--max-delivery-count 5.",
            exit_codes.USAGE,
        )
    entity = ask_server(*server, "update-entity", path=name, properties=properties)
    show(entity, is_json)


@app.command(
    "list",
    epilog=examples("twinbus entities list", "twinbus entities list --json"),
)
def _list(
    connection_string: ConnectionString = None,
    data: Data = None,
    port: Port = None,
    is_json: Json = False,
) -> None:
    """List all entities with their numbers of messages."""
    from twinbus.cli.entity_tables import print_list

    entities = ask_server(connection_string, data, port, "list-entities")
    if is_json:
        print(json.dumps(entities, indent=2))
    elif entities:
        print_list(entities)
    else:
        print("There are no entities. 'twinbus entities create queue NAME' makes one.")


@app.command(
    "show",
    epilog=examples(
        "twinbus entities show orders --json",
        "twinbus entities show events/Subscriptions/billing",
    ),
)
def _show_one(
    name: Name,
    connection_string: ConnectionString = None,
    data: Data = None,
    port: Port = None,
    is_json: Json = False,
) -> None:
    """Show properties and numbers of messages of an entity."""
    show(ask_server(connection_string, data, port, "get-entity", path=name), is_json)


@app.command(
    "delete",
    epilog=examples(
        "twinbus entities delete orders --yes",
        "twinbus entities delete 'events/Subscriptions/billing/Rules/$Default' --yes",
    ),
)
def _delete(
    name: Name,
    is_sure: Annotated[
        bool, typer.Option("--yes", help="Do not ask. Needed where nobody can answer.")
    ] = False,
    connection_string: ConnectionString = None,
    data: Data = None,
    port: Port = None,
    is_json: Json = False,
) -> None:
    """Delete an entity with all that is in it."""
    server = connection_string, data, port
    entity = ask_server(*server, "get-entity", path=name)
    if not is_sure:
        _make_sure(entity)
    ask_server(*server, "delete-entity", path=name)
    path = entity["path"]
    print(json.dumps({"deleted": path}) if is_json else f"Deleted '{path}'.")


def _make_sure(entity: dict[str, Any]) -> None:
    """Messages do not come back; a script has to say that it means it."""
    what = f"{entity['kind']} '{entity['path']}'"
    if "counts" in entity:
        what += f" and its {sum(entity['counts'].values())} messages"
    if not sys.stdin.isatty():
        raise Failure(
            f"Nobody can be asked whether to delete the {what}: give --yes.",
            exit_codes.USAGE,
        )
    typer.confirm(f"Delete the {what}?", abort=True, err=True)
