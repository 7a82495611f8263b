"""Namespaces for people and scripts: a table, and connection strings."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from ipaddress import ip_address
from typing import Any

from twinbus.cli.tables import print_table
from twinbus.client.connection_string import ConnectionString


def with_connection_string(
    shown: Mapping[str, Any], server: ConnectionString
) -> dict[str, Any]:
    """The namespace, with a connection string in place of the keys of its root rule, if
    it has them. `server` is the default namespace, as the command reaches it."""
    found = dict(shown)
    default, root = found.pop("default", ""), found.pop("root_rule", None)
    if root is not None:
        where = server if found["is_default"] else _reached(found, server, default)
        string = replace(
            where,
            key_name=root["key_name"],
            key=root["primary_key"],
            signature="",
            entity_path="",
        )
        found["connection_string"] = string.reveal()
    return found


def _reached(
    shown: Mapping[str, Any], server: ConnectionString, default: str
) -> ConnectionString:
    """By a port of its own; without one by a host name that begins with its name."""
    if shown["ports"]:
        return replace(server, port=shown["ports"][0])
    return replace(server, host=host_of(shown["name"], server.host, default))


def host_of(name: str, host: str, default: str) -> str:
    """The host name of a namespace, on a server whose default one is at `host`."""
    label, _, rest = host.partition(".")
    if label.lower() == default.lower() and rest:
        return f"{name}.{rest}"
    try:
        ip_address(host)
    except ValueError:
        return f"{name}.{host}"
    # An address of digits has no name below it.
    return f"{name}.localhost"


def print_namespaces(namespaces: Sequence[Mapping[str, Any]]) -> None:
    print_table(
        ("name", "queues", "topics", "subscriptions", "ports", ""),
        [_row(one) for one in namespaces],
    )


def _row(namespace: Mapping[str, Any]) -> tuple[str, ...]:
    counts = namespace["entities"]
    notes = []
    if namespace["is_default"]:
        notes.append("default")
    if namespace["is_declared"]:
        notes.append("from the server's settings")
    return (
        namespace["name"],
        *(str(counts[kind]) for kind in ("queue", "topic", "subscription")),
        ", ".join(map(str, namespace["ports"])),
        ", ".join(notes),
    )
