"""The place of a broker in a cluster: what whoever started it gives it.

The supervisor opens the listening sockets once, and all brokers accept from them. So
there is one address, and a broker that is frozen takes no new connections. The life
line is a pipe that ends with the supervisor: a broker whose supervisor is gone stops.
"""

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from twinbus.config.config import Config
from twinbus.store.urls import is_for_machines

_VARIABLE: Final = "_TWINBUS_SEAT"
"""From the supervisor to its brokers. Not a setting: it has descriptors in it."""

PORT: Final = "port"
HTTP_PORT: Final = "http_port"
TLS_PORT: Final = "tls_port"

Sockets = Mapping[str, list[socket.socket]]
"""Listening sockets, by the setting of their port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """Of one broker."""

    # For people.
    name: str
    # So many brokers are started together, and this is one of them.
    broker_count: int = 1
    number: int = 1
    # Those of the supervisor; none: it opens its own.
    sockets: Sockets = field(default_factory=dict)
    # Ends with the supervisor; -1: there is none.
    life_line: int = -1

    def port_of(self, setting: str) -> int:
        """The number of a port that was opened by the supervisor; 0: none was."""
        opened = self.sockets.get(setting)
        return opened[0].getsockname()[1] if opened else 0

    def descriptors(self) -> tuple[int, ...]:
        """What the process of the broker must inherit."""
        listening = (one.fileno() for each in self.sockets.values() for one in each)
        return (*listening, self.life_line)

    def variable(self) -> dict[str, str]:
        """For the environment of the broker's process."""
        given = {
            "name": self.name,
            "broker_count": self.broker_count,
            "number": self.number,
            "life_line": self.life_line,
            "sockets": {
                setting: [one.fileno() for one in opened]
                for setting, opened in self.sockets.items()
            },
        }
        return {_VARIABLE: json.dumps(given)}


def own_name(name: str, config: Config) -> str:
    """The name of a broker: with its machine, where there may be several."""
    if not is_for_machines(config.catalog):
        return name
    return f"{name} on {socket.gethostname()}"


def inherited_seat() -> Seat | None:
    """What the supervisor gave this process; None if it was started by hand."""
    text = os.environ.pop(_VARIABLE, "")
    if not text:
        return None
    given = json.loads(text)
    return Seat(
        name=given["name"],
        broker_count=given["broker_count"],
        number=given["number"],
        life_line=given["life_line"],
        sockets={
            setting: [socket.socket(fileno=number) for number in numbers]
            for setting, numbers in given["sockets"].items()
        },
    )
