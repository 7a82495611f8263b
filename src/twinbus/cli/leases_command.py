"""`twinbus leases`: who reads an entity alone, so that its receivers get nothing.

Spark jobs and syphons hold such leases while they run. The list needs the Manage claim,
as all commands about entities do.
"""

import json
from typing import Any

from twinbus.cli import exit_codes
from twinbus.cli.command_group import examples, group
from twinbus.cli.confirming import Yes, make_sure
from twinbus.cli.entity_flags import SERVER, Name
from twinbus.cli.entity_questions import ask_server
from twinbus.cli.failure import Failure
from twinbus.cli.flags import takes

app = group(
    "leases",
    "List and end reader leases: while one is held, receivers get nothing.",
    examples("twinbus leases list", "twinbus leases end orders --yes"),
)


@app.command(
    "list", epilog=examples("twinbus leases list", "twinbus leases list --json")
)
@takes(*SERVER)
def _list(**flags: Any) -> None:
    """List the reader leases of all entities and their dead-letter queues."""
    from twinbus.cli.lease_tables import print_leases

    leases = _leases(ask_server(flags, "list-entities"))
    if flags["is_json"]:
        print(json.dumps(leases, indent=2))
    elif leases:
        print_leases(leases)
    else:
        print("No reader holds a lease: all receivers are served.")


@app.command(
    "end",
    epilog=examples(
        "twinbus leases end orders --yes",
        "twinbus leases end 'orders/$DeadLetterQueue' --yes",
    ),
)
@takes(*SERVER)
def _end(name: Name, is_sure: Yes = False, **flags: Any) -> None:
    """End the reader lease of an entity. Receivers are served again.

    Its reader fails with the next request. Messages that it has read and not settled
    are delivered again.
    """
    held = _leases([ask_server(flags, "get-entity", path=_entity_of(name))])
    wanted = name.strip("/").lower()
    found = [lease for lease in held if lease["path"].lower() == wanted]
    if not found:
        raise Failure(
            f"No reader holds a lease of '{name}'. 'twinbus leases list' shows all.",
            exit_codes.NOT_FOUND,
        )
    [lease] = found
    if not is_sure:
        make_sure("end", f"the lease of '{lease['path']}' by '{lease['reader']}'")
    released = _release(flags, lease)
    if flags["is_json"]:
        print(json.dumps({"ended": [lease] if released else []}, indent=2))
    elif released:
        print(f"Ended the lease of '{lease['path']}' by '{lease['reader']}'.")
    else:
        print(f"The lease of '{lease['path']}' had ended already.")


def _entity_of(name: str) -> str:
    """Without the name of a dead-letter queue."""
    from twinbus.broker.entity_path import parse_entity_path

    return parse_entity_path(name.strip("/")).entity


def _leases(entities: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [lease for entity in entities for lease in entity.get("reader_leases", ())]


def _release(flags: dict[str, Any], lease: dict[str, Any]) -> int:
    from twinbus.cli.own_requests import ask_own

    wanted = {
        "reader": lease["reader"],
        "release": True,
        "entities": [{"path": lease["path"], "epoch": lease["epoch"]}],
    }
    released: int = ask_own(flags, "POST", "/$bulk/lease", wanted)["released"]
    return released
