"""Authorization rules for people and scripts: a table, and connection strings."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from twinbus.cli.tables import print_table
from twinbus.client.connection_string import ConnectionString

_KEYS: Final = ("primary", "secondary")


def with_connection_strings(answer: Any, server: ConnectionString) -> Any:
    """The rule, or each of the rules, with connection strings of its keys."""
    if isinstance(answer, list):
        return [with_connection_strings(rule, server) for rule in answer]
    shown = dict(answer)
    for which in _KEYS:
        key = shown[f"{which}_key"]
        string = replace(
            server,
            key_name=shown["key_name"],
            key=key,
            signature="",
            entity_path=shown["entity_path"] or "",
        )
        shown[f"{which}_connection_string"] = string.reveal() if key else None
    return shown


def print_rules(rules: Sequence[Mapping[str, Any]]) -> None:
    if not rules:
        print("There are no rules of its own. Those of the namespace apply.")
        return
    print_table(
        ("name", "rights", "entity", ""),
        [
            (
                rule["key_name"],
                ", ".join(rule["rights"]),
                rule["entity_path"] or "",
                "from the server's settings" if rule.get("is_fixed") else "",
            )
            for rule in rules
        ],
    )
    for rule in rules:
        for which in _KEYS:
            # Not in the table, which would break them into lines.
            if string := rule.get(f"{which}_connection_string"):
                print(f"{rule['key_name']} {which}:\n  {string}")
