"""`twinbus entities`: list, show, update and delete entities.

The commands ask a running server, which makes all decisions. Its refusals are printed
as they are, with what to do next.
"""

import json
from typing import Any

from twinbus.cli import exit_codes
from twinbus.cli.command_group import examples, group
from twinbus.cli.confirming import Yes, make_sure
from twinbus.cli.create_command import app as create
from twinbus.cli.entity_flags import (
    SERVER,
    Name,
    Patterns,
    given_properties,
    property_flags,
)
from twinbus.cli.entity_questions import ask_server, show
from twinbus.cli.failure import Failure
from twinbus.cli.flags import takes

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
@takes(*property_flags("u"), *SERVER)
def _update(name: Name, **flags: Any) -> None:
    """Change properties of an entity. Those that are not given stay as they are."""
    properties = given_properties(flags)
    if properties == "{}":
        raise Failure(
            f"There is nothing to change in '{name}': give a property, for instance "
            "--max-delivery-count 5.",
            exit_codes.USAGE,
        )
    show(ask_server(flags, "update-entity", path=name, properties=properties), flags)


@app.command(
    "list",
    epilog=examples(
        "twinbus entities list",
        "twinbus entities list 'events*' --json",
    ),
)
@takes(*SERVER)
def _list(patterns: Patterns = None, **flags: Any) -> None:
    """List entities, with how many messages each has."""
    from twinbus.cli.entity_choice import chosen_entities
    from twinbus.cli.entity_tables import print_list

    found = ask_server(flags, "list-entities")
    entities = chosen_entities(found, patterns or [])
    if flags["is_json"]:
        print(json.dumps(entities, indent=2))
    elif entities:
        print_list(entities)
    elif found:
        print("No entity matches.")
    else:
        print("There are no entities. 'twinbus entities create queue NAME' makes one.")


@app.command(
    "show",
    epilog=examples(
        "twinbus entities show orders --json",
        "twinbus entities show events/Subscriptions/billing",
    ),
)
@takes(*SERVER)
def _show_one(name: Name, **flags: Any) -> None:
    """Show the properties of an entity, and how many messages it has."""
    show(ask_server(flags, "get-entity", path=name), flags)


@app.command(
    "delete",
    epilog=examples(
        "twinbus entities delete orders --yes",
        "twinbus entities delete 'events/Subscriptions/billing/Rules/$Default' --yes",
    ),
)
@takes(*SERVER)
def _delete(name: Name, is_sure: Yes = False, **flags: Any) -> None:
    """Delete an entity with all its messages."""
    entity = ask_server(flags, "get-entity", path=name)
    if not is_sure:
        make_sure("delete", _described(entity))
    ask_server(flags, "delete-entity", path=name)
    path = entity["path"]
    print(json.dumps({"deleted": path}) if flags["is_json"] else f"Deleted '{path}'.")


def _described(entity: dict[str, Any]) -> str:
    what = f"the {entity['kind']} '{entity['path']}'"
    if "counts" in entity:
        what += f" and its {sum(entity['counts'].values())} messages"
    return what
