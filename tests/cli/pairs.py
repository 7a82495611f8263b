"""Two servers as the sides of a pair, and messages as a paired sender leaves them."""

from pathlib import Path
from typing import Any

from azure.servicebus import ServiceBusClient, ServiceBusMessage

from bench.free_port import free_port
from twinbus.pairing.backlog_queues import backlog_queue_path
from twinbus.testing import Bus

from .command import Serving

NAME = "site-a"
QUEUES = tuple(backlog_queue_path(NAME, index) for index in (0, 2, 10))


def served(folder: Path, **queues: str) -> Serving:
    """A server that speaks TLS on its one port: administration needs that."""
    folder.mkdir()
    port = str(free_port())
    (folder / "bus.toml").write_text(
        "".join(f'[queues."{path}"]\n{text}\n' for path, text in queues.items())
    )
    ports = ("--port", port, "--http-port", "0", "--tls-port", port)
    return Serving("--config", "bus.toml", *ports, cwd=folder)


def sides_of(buses: tuple[Bus, Bus]) -> dict[str, str]:
    """The variables that name a primary and a secondary."""
    primary, secondary = buses
    return {
        "TWINBUS_PRIMARY": primary.connection_string,
        "TWINBUS_SECONDARY": secondary.connection_string,
    }


def variables(primary: str, secondary: str, folder: Path) -> dict[str, str]:
    """What commands are told by variables; the authority is that of the secondary."""
    return {
        "TWINBUS_PRIMARY": primary,
        "TWINBUS_SECONDARY": secondary,
        "SSL_CERT_FILE": str(folder / "data" / "tls" / "ca.pem"),
    }


def client_of(server: Serving) -> Any:
    return ServiceBusClient.from_connection_string(server.connection_string)


def divert(client: Any, queue: str, *paths: str) -> None:
    """Leave a message for each of the paths."""
    with client.get_queue_sender(queue) as sender:
        for path in paths:
            properties = {"x-ms-path": path}
            message = ServiceBusMessage(
                f"for {path}", application_properties=properties
            )
            sender.send_messages(message)
