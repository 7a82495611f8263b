"""Namespaces besides the default one, as a file declares them.

[namespaces.shop]
key = "..."                          # of its root rule; left out: one is made
ports = [5673]

[namespaces.shop.queues.orders]      # and topics, as for the default namespace
[[namespaces.shop.rules]]            # likewise
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from twinbus.broker.descriptions.access_rule import (
    RIGHTS,
    ROOT_KEY_NAME,
    AccessRule,
    check_changed,
)
from twinbus.broker.namespace_name import check_namespace_name
from twinbus.config.entities import (
    DeclaredEntities,
    access_rule,
    check_names,
    entities_of_tables,
    table,
)
from twinbus.errors import ServiceBusError
from twinbus.limits import PORT_MAX, PORTS_PER_NAMESPACE

_PARTS: Final = ("key", "ports", "queues", "topics", "rules")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredNamespace:
    """One of them."""

    # Of the root rule; empty: it is made, and kept in the catalog.
    key: str = field(default="", repr=False)
    ports: tuple[int, ...] = ()
    # Besides the root rule.
    rules: tuple[AccessRule, ...] = ()
    entities: DeclaredEntities = field(default_factory=DeclaredEntities)

    @property
    def fixed_rules(self) -> tuple[AccessRule, ...]:
        """Those that are not stored, because the file has them."""
        if not self.key:
            return self.rules
        root = AccessRule(key_name=ROOT_KEY_NAME, primary_key=self.key, rights=RIGHTS)
        return (root, *self.rules)


def namespaces_of(value: object) -> dict[str, DeclaredNamespace]:
    """What the sections `namespaces` say, by name. Raises ValueError."""
    found = {
        name: _namespace(name, section)
        for name, section in table(value, "[namespaces]").items()
    }
    if len(set(map(str.lower, found))) < len(found):
        raise ValueError("[namespaces]: two names differ in their letter case only")
    return found


def _namespace(name: str, value: object) -> DeclaredNamespace:
    where = f"[namespaces.{name}]"
    try:
        check_namespace_name(name)
    except ServiceBusError as error:
        raise ValueError(f"{where}: {error.text}") from None
    section = table(value, where)
    check_names(section, _PARTS, where, "setting")
    key = section.get("key", "")
    if not isinstance(key, str):
        raise ValueError(f"{where} key: must be text")
    queues, topics = (
        _tables(section, "queues", where),
        _tables(section, "topics", where),
    )
    try:
        entities = entities_of_tables(queues, topics)
    except ValueError as error:
        raise ValueError(f"{where} {error}") from None
    return DeclaredNamespace(
        key=key,
        ports=_ports(section.get("ports", []), where),
        rules=rules_of_list(section.get("rules", []), f"namespaces.{name}.rules"),
        entities=entities,
    )


def _tables(section: Mapping[str, Any], name: str, where: str) -> Mapping[str, Any]:
    return table(section.get(name, {}), f"{where} {name}")


def _ports(value: object, where: str) -> tuple[int, ...]:
    ports = value if isinstance(value, list) else [value]
    if any(type(port) is not int or not 1 <= port <= PORT_MAX for port in ports):
        raise ValueError(f"{where} ports: must be a list of numbers, 1 to {PORT_MAX}")
    if len(ports) > PORTS_PER_NAMESPACE:
        raise ValueError(f"{where} ports: {PORTS_PER_NAMESPACE} at most")
    return tuple(ports)


def rules_of_list(rules: object, name: str) -> tuple[AccessRule, ...]:
    """The rules of a namespace besides its root rule. Raises ValueError."""
    if not isinstance(rules, list):
        raise ValueError(f"{name}: write each as [[{name}]]")
    where = f"[[{name}]]"
    found = tuple(access_rule(rule, where) for rule in rules)
    root = AccessRule(key_name=ROOT_KEY_NAME, primary_key="", rights=RIGHTS)
    try:
        check_changed((root, *found), (root,), where)
    except ServiceBusError as error:
        raise ValueError(f"{where}: {error.text}") from None
    return found
