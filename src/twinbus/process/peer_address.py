"""The address of a broker for others: where it listens, and what it announces."""

import errno
import socket
from typing import Final

from twinbus.config.config import Config
from twinbus.process.listener import listening_sockets
from twinbus.process.seat import Seat

_EVERYWHERE: Final = ("", "0.0.0.0", "::")


def peer_sockets(config: Config, seat: Seat) -> list[socket.socket]:
    """Listening sockets for other brokers. Raises OSError."""
    port = config.peer_port and config.peer_port + seat.number - 1
    host = _listening_host(config)
    try:
        return listening_sockets(host, port)
    except OSError as error:
        is_ours = error.errno != errno.EADDRNOTAVAIL and not isinstance(
            error, socket.gaierror
        )
        if is_ours or config.host not in _EVERYWHERE:
            raise
    # An address that others translate to one of this machine, as for a container.
    return listening_sockets(config.host, port)


def peer_address(config: Config, port: int) -> str:
    """What is announced: HOST:PORT."""
    host = _listening_host(config)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _listening_host(config: Config) -> str:
    if config.peer_host:
        return config.peer_host
    # Whoever listens everywhere has to say which address others can reach.
    return "127.0.0.1" if config.host in _EVERYWHERE else config.host
