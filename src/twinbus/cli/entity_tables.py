"""Entities as tables for people: a list, and one entity in full."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from twinbus.broker.transfer_queue import is_transfer_queue, primary_of
from twinbus.cli.tables import FieldList, print_table
from twinbus.durations import readable_duration
from twinbus.instants import instant_of

_KILOBYTE: Final = 1024
_DURATION_SUFFIX: Final = "_ms"


def print_list(entities: Iterable[Mapping[str, Any]]) -> None:
    """One line for each entity."""
    entities = list(entities)
    has_leases = any(entity["reader_leases"] for entity in entities)
    is_named = any("namespace" in entity for entity in entities)
    counts = ("active", "scheduled", "deferred", "dead-letter")
    print_table(
        (
            *("name", "kind", "status", *counts, "size"),
            *["read alone by"] * has_leases,
            *["namespace"] * is_named,
        ),
        [
            (
                entity["path"],
                _kind(entity),
                entity["properties"]["status"],
                *(str(entity["counts"][name.replace("-", "_")]) for name in counts),
                readable_size(entity["size_bytes"]),
                *[_readers(entity)] * has_leases,
                *[entity.get("namespace", "")] * is_named,
            )
            for entity in entities
        ],
        right=range(3, 8),
    )


def _readers(entity: Mapping[str, Any]) -> str:
    """Those with a lease: meanwhile receivers get nothing."""
    return ", ".join(lease["reader"] for lease in entity["reader_leases"])


def print_entity(entity: Mapping[str, Any]) -> None:
    """All about one entity."""
    table = FieldList()
    table.add_row("name", entity["path"])
    table.add_row("kind", _kind(entity))
    if "namespace" in entity:
        table.add_row("namespace", entity["namespace"])
    if "rule" in entity:
        _add_rule(table, entity["rule"])
    else:
        _add_properties(table, entity)
    table.print()


def _kind(entity: Mapping[str, Any]) -> str:
    kind, path = str(entity["kind"]), str(entity["path"])
    if kind == "queue" and is_transfer_queue(path):
        return f"backlog of {primary_of(path)}"
    return kind


def _add_properties(table: FieldList, entity: Mapping[str, Any]) -> None:
    for name, value in entity["properties"].items():
        table.add_row(name.removesuffix(_DURATION_SUFFIX), _readable(name, value))
    for name, count in entity["counts"].items():
        table.add_row(f"{name} messages", str(count))
    table.add_row("size", readable_size(entity["size_bytes"]))
    table.add_row("created", _readable_instant(entity["created_at"]))
    table.add_row("updated", _readable_instant(entity["updated_at"]))
    for lease in entity["reader_leases"]:
        until = _readable_instant(lease["expires_at"])
        told = f"'{lease['reader']}' reads {lease['path']} alone until {until}"
        table.add_row("reader lease", told)
    for fragment in entity.get("fragments", ()):
        table.add_row(f"fragment {fragment['index']}", _readable_fragment(fragment))
    for rule in entity.get("rules", ()):
        table.add_row(f"rule {rule['name']}", _readable_filter(rule["filter"]))


def _readable_fragment(fragment: Mapping[str, Any]) -> str:
    first, following = fragment["first"], fragment["next"]
    bounds = f"next number {following}" if first is None else f"{first} to {following}"
    return (
        f"{fragment['state']}, {fragment['active_count']} active, "
        f"{fragment['deferred_count']} deferred, "
        f"{fragment['scheduled_count']} scheduled, "
        f"{readable_size(fragment['size_bytes'])}, {bounds}, store {fragment['store']}"
    )


def _add_rule(table: FieldList, rule: Mapping[str, Any]) -> None:
    table.add_row("filter", _readable_filter(rule["filter"]))
    if "action" in rule:
        table.add_row("action", rule["action"]["text"])
    table.add_row("created", _readable_instant(rule["created_at"]))


def _readable_filter(filter: Mapping[str, Any]) -> str:
    if filter["kind"] == "sql":
        return str(filter["text"])
    if filter["kind"] == "correlation":
        asked = {
            **filter["fields"],
            **{name: value for name, (_, value) in filter["properties"].items()},
        }
        return ", ".join(f"{name}={value}" for name, value in asked.items())
    return "every message" if filter["kind"] == "true" else "no message"


def _readable(name: str, value: object) -> str:
    if name.endswith(_DURATION_SUFFIX) and isinstance(value, int):
        return readable_duration(value)
    if name == "max_message_size_in_kilobytes" and value == 0:
        return "the namespace's limit"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name == "authorization_rules" and isinstance(value, list):
        rules = (f"{rule['key_name']} ({', '.join(rule['rights'])})" for rule in value)
        return "; ".join(rules) or "none"
    return str(value)


def _readable_instant(at: int) -> str:
    return instant_of(at).isoformat(" ", "seconds")


def readable_age(age_ms: int) -> str:
    """A duration in whole seconds."""
    # Zero would mean unlimited.
    return readable_duration(age_ms // 1000 * 1000) if age_ms >= 1000 else "0s"


def readable_size(size_bytes: int) -> str:
    """A size with at most three digits."""
    size = float(size_bytes)
    for unit in ("B", "KB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= _KILOBYTE
    return f"{size:.3g} TB"
