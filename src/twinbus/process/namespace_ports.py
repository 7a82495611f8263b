"""Ports of single namespaces: who connects there means that namespace.

They serve all protocols, as every port does. A port can be claimed before its namespace
exists, so that one which is in use is refused. Of several brokers each listens, and the
system gives each its share of the connections.
"""

import logging
import os
import socket
from collections.abc import Sequence

from twinbus.entities.namespace import Namespace
from twinbus.entities.namespace_making import OwnPorts, ports_of
from twinbus.entities.namespaces import Namespaces
from twinbus.errors import NotAllowed
from twinbus.process.listener import Admit, Listener, listening_sockets

_log = logging.getLogger(__name__)


class NamespacePorts(OwnPorts):
    """Of one server."""

    def __init__(
        self, host: str, namespaces: Namespaces, admit: Admit, *, is_shared: bool
    ) -> None:
        """`is_shared`: other brokers listen at the same ports."""
        self._host = host
        self._namespaces = namespaces
        self._admit = admit
        self._is_shared = is_shared
        self._is_listening = False
        # Claimed, and not in use yet.
        self._claimed: dict[int, list[socket.socket]] = {}
        self._listeners: dict[Namespace, list[Listener]] = {}

    def claim(self, ports: Sequence[int]) -> tuple[int, ...]:
        if not self._is_listening:
            return tuple(ports)
        claimed: list[int] = []
        for port in ports:
            try:
                opened = self._opened(port)
            except OSError as error:
                self.release(claimed)
                why = os.strerror(error.errno or 0)
                raise NotAllowed(
                    f"The server cannot listen at port {port}: {why}."
                ) from None
            number: int = opened[0].getsockname()[1]
            self._claimed[number] = opened
            claimed.append(number)
        return tuple(claimed)

    def _opened(self, port: int) -> list[socket.socket]:
        return listening_sockets(self._host, port, is_shared=self._is_shared)

    def release(self, ports: Sequence[int]) -> None:
        for port in ports:
            for opened in self._claimed.pop(port, ()):
                opened.close()

    def listen(self) -> None:
        """The server serves clients from now on."""
        self._is_listening = True
        for namespace in self._namespaces:
            self.entered(namespace)

    def entered(self, namespace: Namespace) -> None:
        if self._is_listening:
            for port in ports_of(namespace):
                self._listen_at(port, namespace)

    def _listen_at(self, port: int, namespace: Namespace) -> None:
        try:
            sockets = self._claimed.pop(port, None) or self._opened(port)
        except OSError as error:
            # The namespace is still reached by its host name.
            why = os.strerror(error.errno or 0)
            name = namespace.name
            _log.error("can't listen at port %d for '%s': %s", port, name, why)
            return
        listener = Listener(sockets, self._admit)
        self._listeners.setdefault(namespace, []).append(listener)
        self._namespaces.listens(port, namespace)

    def removed(self, namespace: Namespace) -> None:
        for listener in self._listeners.pop(namespace, ()):
            listener.close()

    def close(self) -> None:
        self._is_listening = False
        for namespace in list(self._listeners):
            self.removed(namespace)
