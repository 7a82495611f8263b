"""Makes and removes namespaces besides the default one.

A namespace is made by one write of its record, which has its root rule with new keys.
It is removed by one write, too: tombstones of its entities and its own take the place
of all their records, and what is left in the stores is dropped afterwards, or after the
next start (`loose_ends.py`). So there is no moment at which it is there by half.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

from twinbus.broker.descriptions.access_rule import (
    RIGHTS,
    ROOT_KEY_NAME,
    AccessRule,
)
from twinbus.broker.namespace_name import check_namespace_name
from twinbus.entities.access_keys import new_key
from twinbus.entities.namespace import Namespace
from twinbus.entities.namespace_access import RULES
from twinbus.entities.namespaces import Namespaces
from twinbus.entities.overtaken import tried_again
from twinbus.entities.record_description import MADE, entity_order
from twinbus.errors import (
    ArgumentOutOfRange,
    EntityAlreadyExists,
    MessagingEntityNotFound,
    NotAllowed,
    QuotaExceeded,
)
from twinbus.limits import NAMESPACES, PORT_MAX, PORTS_PER_NAMESPACE
from twinbus.store.catalog import TOMBSTONE, EntityRecord, unfinished

_PORTS: Final = "ports"
"""In the description of a namespace's record: ports of its own."""

_KINDS: Final = ("queue", "topic", "subscription")


def ports_of(namespace: Namespace) -> tuple[int, ...]:
    """Those that were given to this namespace alone."""
    own = namespace.own
    return () if own is None else tuple(own.description.get(_PORTS, ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownNamespace:
    """A namespace, for those who manage the server."""

    name: str
    is_default: bool
    # It is in the settings of the server.
    is_declared: bool
    created_at: int
    # Number of entities, by kind.
    counts: dict[str, int]
    ports: tuple[int, ...]


class OwnPorts:
    """The ports of namespaces; without a server that listens there are none."""

    def claim(self, ports: Sequence[int]) -> tuple[int, ...]:
        """Make sure that the ports can be used; 0 means any free one. Raises
        NotAllowed."""
        return tuple(ports)

    def release(self, ports: Sequence[int]) -> None:
        """They are not needed after all."""


class NamespaceMaking:
    """Of one server."""

    def __init__(
        self, namespaces: Namespaces, declared: Iterable[str], ports: OwnPorts
    ) -> None:
        """`declared`: names in the settings."""
        self._namespaces = namespaces
        self._ground = namespaces.ground
        self._declared = {name.lower() for name in declared}
        self._ports = ports

    # --- looking --------------------------------------------------------------

    def shown(self) -> list[ShownNamespace]:
        """All, the default one first."""
        return [self.shown_one(one) for one in self._namespaces]

    def shown_one(self, namespace: Namespace) -> ShownNamespace:
        kinds = [entity.record.kind for entity in namespace.entities()]
        return ShownNamespace(
            name=namespace.name,
            is_default=namespace is self._namespaces.default,
            is_declared=namespace.name.lower() in self._declared,
            created_at=namespace.created_at,
            counts={kind: kinds.count(kind) for kind in _KINDS},
            ports=ports_of(namespace),
        )

    def found(self, name: str) -> Namespace:
        """Raises MessagingEntityNotFound."""
        found = self._namespaces.named(name)
        if found is None:
            raise MessagingEntityNotFound(
                f"There is no namespace '{name[:80]}' on this server."
            )
        return found

    def root_rule(self, namespace: Namespace) -> AccessRule | None:
        """With its keys; None if it was taken away."""
        access = namespace.access
        for rule in (*access.fixed, *access.stored):
            if rule.key_name == ROOT_KEY_NAME:
                return rule
        return None

    # --- making ---------------------------------------------------------------

    @tried_again
    async def create(self, name: str, ports: Sequence[int] = ()) -> Namespace:
        """Make a namespace with a root rule of its own; it is durable when this
        returns. Raises ArgumentError, EntityAlreadyExists, NotAllowed, QuotaExceeded,
        ServerBusy."""
        check_namespace_name(name)
        _check_ports(ports)
        claimed = self._ports.claim(ports)
        try:
            async with self._ground.follower.latest():
                self._check_new(name)
                record = self._namespaces.new_own(name, self._description(claimed))
                await self._ground.follower.put(record)
                self._namespaces.own_followed([record])
                self._ground.loose_ends.record(record)
        finally:
            # Those of a namespace that is there are in use by now.
            self._ports.release(claimed)
        return self.found(name)

    def _check_new(self, name: str) -> None:
        if self._namespaces.named(name) is not None:
            raise EntityAlreadyExists(
                f"There is a namespace '{name}' already. Choose another name."
            )
        if name.lower() in self._namespaces.unserved:
            raise EntityAlreadyExists(
                f"The catalog has entities of a namespace '{name}', which was the one "
                "of this server under other settings. Choose another name, or start "
                f"the server with --namespace {name} and remove them."
            )
        if len(self._namespaces) >= NAMESPACES:
            raise QuotaExceeded(
                f"A server may have {NAMESPACES} namespaces. Remove one, or start "
                "another server."
            )

    def _description(self, ports: Sequence[int]) -> dict[str, Any]:
        entropy = self._ground.entropy
        root = AccessRule(
            key_name=ROOT_KEY_NAME,
            primary_key=new_key(entropy),
            secondary_key=new_key(entropy),
            rights=RIGHTS,
        )
        given = {_PORTS: list(ports)} if ports else {}
        return {MADE: True, RULES: [root.to_json()], **given}

    async def declare(self, name: str, ports: Sequence[int]) -> Namespace:
        """Make a namespace of the settings, if it is not there; its ports are those of
        the settings. Raises as `create`."""
        found = self._namespaces.named(name)
        if found is None:
            return await self.create(name, ports)
        if ports_of(found) != tuple(ports):
            await found.change_own(_with_ports(ports))
        return found

    # --- removing -------------------------------------------------------------

    @tried_again
    async def remove(self, name: str) -> None:
        """Remove a namespace with its entities and their messages. Raises
        MessagingEntityNotFound, NotAllowed, FragmentUnavailable, ServerBusy."""
        async with self._ground.follower.latest():
            namespace = self.found(name)
            self._check_removable(namespace)
            assert namespace.own is not None
            # Subscriptions come first: without their topic they could not be loaded.
            entities = sorted(
                namespace.entities(), key=lambda one: -entity_order(one.record)
            )
            for entity in entities:
                namespace.stores.check_available(entity.record)
            records = [*(entity.record for entity in entities), namespace.own]
            now = self._ground.clock.now()
            noted = (unfinished(record, TOMBSTONE, now) for record in records)
            await self._ground.follower.remove(list(chain.from_iterable(noted)))
            self._namespaces.forget(namespace)
        for owner in self._ground.owners.serving():
            await owner.durable()

    def _check_removable(self, namespace: Namespace) -> None:
        """Raises NotAllowed."""
        if namespace is self._namespaces.default:
            raise NotAllowed(
                f"'{namespace.name}' is the default namespace of the server, which "
                "its settings name: it cannot be removed."
            )
        if namespace.name.lower() in self._declared:
            raise NotAllowed(
                f"The namespace '{namespace.name}' is in the configuration file of "
                "the server, which would make it again. Remove it there first, and "
                "start the server again."
            )


def _with_ports(ports: Sequence[int]) -> Callable[[EntityRecord], EntityRecord]:
    def changed(record: EntityRecord) -> EntityRecord:
        described = {**record.description, _PORTS: list(ports)}
        return replace(record, description=described)

    return changed


def _check_ports(ports: Sequence[int]) -> None:
    """Raises ArgumentOutOfRange."""
    if len(ports) > PORTS_PER_NAMESPACE:
        raise ArgumentOutOfRange(
            f"A namespace may have {PORTS_PER_NAMESPACE} ports of its own."
        )
    for port in ports:
        if not 0 <= port <= PORT_MAX:
            raise ArgumentOutOfRange(f"{port} is not the number of a port.")
