"""One namespace: a `twinbus serve` process, its keys and its administration.

Tests look at its content here, without proxies and pairs.
"""

import signal
from pathlib import Path
from typing import Any

from azure.servicebus.management import ServiceBusAdministrationClient
from crash.server_process import ServerProcess

ROOT_RULE = "RootManageSharedAccessKey"
ROOT_KEY = "key-of-the-root-rule-of-a-paired-site"
SEND_ONLY_KEY = "key-of-a-rule-that-may-only-send"
LISTEN_ONLY_KEY = "key-of-a-rule-that-may-only-listen"

_RULES = f"""
[[rules]]
key_name = "sender"
primary_key = "{SEND_ONLY_KEY}"
rights = ["Send"]

[[rules]]
key_name = "listener"
primary_key = "{LISTEN_ONLY_KEY}"
rights = ["Listen"]
"""


class Site(ServerProcess):
    """A namespace that a test may kill, freeze and start again."""

    def __init__(
        self, folder: Path, *, config: str = "", flags: tuple[str, ...] = ()
    ) -> None:
        super().__init__(folder, config=config + _RULES)
        # TLS on the main port: the administration client of the SDK speaks no other.
        self._flags = ("--tls-port", str(self.port), "--key", ROOT_KEY, *flags)
        self._administration: ServiceBusAdministrationClient | None = None

    @property
    def ca_file(self) -> Path:
        return self.data / "tls" / "ca.pem"

    def connection_string(
        self, port: int | None = None, *, rule: str = ROOT_RULE, key: str = ROOT_KEY
    ) -> str:
        """For the SDK; another port is that of a proxy."""
        return (
            f"Endpoint=sb://localhost:{port or self.port};SharedAccessKeyName={rule};"
            f"SharedAccessKey={key};UseDevelopmentEmulator=true"
        )

    @property
    def administration(self) -> ServiceBusAdministrationClient:
        """The tests' own way to make and change entities."""
        if self._administration is None:
            self._administration = (
                ServiceBusAdministrationClient.from_connection_string(
                    self.connection_string(), connection_verify=str(self.ca_file)
                )
            )
        return self._administration

    def close_administration(self) -> None:
        if self._administration is not None:
            self._administration.close()
            self._administration = None

    def kill(self) -> None:
        self.close_administration()
        super().kill()

    def freeze(self) -> None:
        """SIGSTOP: its connections stay, and nobody answers."""
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.signal(signal.SIGCONT)

    @property
    def runs(self) -> bool:
        return self._process is not None

    def make_sound(self) -> None:
        """As the next test expects it, whatever the last one did."""
        if self.runs:
            self.thaw()
        else:
            self.start_now()

    # --- its entities ---------------------------------------------------------

    def create_queue(self, name: str, **settings: Any) -> None:
        self.administration.create_queue(name, **settings)

    def create_topic(self, name: str, *subscriptions: str, **settings: Any) -> None:
        self.administration.create_topic(name, **settings)
        for subscription in subscriptions:
            self.administration.create_subscription(name, subscription)

    def set_status(self, queue: str, status: str) -> None:
        """`Active`, `Disabled`, `SendDisabled` or `ReceiveDisabled`."""
        properties = self.administration.get_queue(queue)
        properties.status = status
        self.administration.update_queue(properties)

    def queue_names(self) -> list[str]:
        return [queue.name for queue in self.administration.list_queues()]

    def message_count(self, queue: str) -> int:
        """Of all states, dead letters included."""
        return (
            self.administration.get_queue_runtime_properties(queue).total_message_count
            or 0
        )
