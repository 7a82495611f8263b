"""Which namespace a client of an AMQP connection means, while it says so bit by bit.

TLS comes first, then `sasl-init`, then `open`; over WebSockets there is a header `Host`
as well. Clients that connect through another address give that one in `sasl-init`, so
only names of namespaces count (`entities/namespace_finding.py`). Once a key was shown,
or the connection is open, the namespace is settled: nothing that is said later leads to
another one.
"""

from twinbus.doors.arrived_at import ArrivedAt
from twinbus.entities.namespace import Namespace
from twinbus.entities.namespaces import Namespaces
from twinbus.errors import NotAllowed


class AskedFor:
    """Of one connection."""

    __slots__ = ("_arrived", "_hosts", "_namespaces", "_settled")

    def __init__(self, namespaces: Namespaces) -> None:
        self._namespaces = namespaces
        self._arrived = ArrivedAt()
        self._hosts: list[str | None] = []
        self._settled: Namespace | None = None

    def arrived(self, arrived: ArrivedAt) -> None:
        self._arrived = arrived
        self._hosts.extend(arrived.hosts)

    def heard(self, host: str | None, *, is_last: bool) -> Namespace:
        """The client has named this host. Raises NotAllowed if that contradicts what
        it said before."""
        self._hosts.append(host)
        found = self._namespaces.meant_by(self._hosts, self._arrived.port)
        if self._settled is not None and found is not self._settled:
            raise NotAllowed(
                f"The key was shown to the namespace '{self._settled.name}', and the "
                f"connection is opened for '{found.name}'. Use the same host name in "
                "sasl-init and in open."
            )
        if is_last:
            self._settled = found
        return found
