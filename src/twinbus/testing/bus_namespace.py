"""A further namespace of a bus for tests: one for each test, on a bus that they share.

It has a port of its own, so that its connection string works wherever names below
`localhost` are not resolved.
"""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Self, TypeVar

from twinbus.broker.descriptions.access_rule import ROOT_KEY_NAME
from twinbus.entities.namespace import Namespace
from twinbus.entities.namespace_making import ports_of
from twinbus.testing.bus_entities import BusEntities, delete_all

if TYPE_CHECKING:
    from twinbus.testing.bus import Bus

T = TypeVar("T")


class BusNamespace(BusEntities):
    """One of them. In a `with` statement it is removed at the end."""

    def __init__(self, bus: "Bus", name: str) -> None:
        self._bus = bus
        self.name = name
        self.key_name = ROOT_KEY_NAME
        root = bus.server.making.root_rule(self._served())
        assert root is not None, "it was made with a root rule"
        self.key = root.primary_key
        (self.port, *_) = ports_of(self._served())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._bus._run(coroutine)

    def _served(self) -> Namespace:
        return self._bus.server.making.found(self.name)

    @property
    def connection_string(self) -> str:
        """For azure-servicebus, with all claims on this namespace."""
        return (
            f"Endpoint=sb://localhost:{self.port};SharedAccessKeyName={self.key_name};"
            f"SharedAccessKey={self.key};UseDevelopmentEmulator=true"
        )

    def reset(self) -> None:
        """Remove its entities. Other namespaces and the clock stay as they are."""
        self._run(delete_all(self._served()))

    def remove(self) -> None:
        """Remove it with all that is in it. Does nothing if it is gone."""
        server = self._bus.server
        if server.namespaces.named(self.name) is not None:
            self._run(server.making.remove(self.name))
