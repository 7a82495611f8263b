"""A private RabbitMQ node: own folder, ports, cookie and name service.

It shares nothing with a RabbitMQ of the system, which may run meanwhile. The
queue is declared by the first link: RabbitMQ makes `/queue/NAME` as durable as
the link's terminus asks, and the load client asks for it. Links cannot bind durable
queues to an exchange, so those of a fan-out come from a file of definitions that the
node reads at its start. Settings are RabbitMQ's own, except where it listens.
"""

import json
import os
import secrets
import shutil
import subprocess
import tempfile
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

from bench.free_port import free_port
from bench.load_client import Target
from bench.prerequisites import RABBITMQ_INSTALL, MissingPrerequisite, find_rabbitmq
from bench.processes import stop
from bench.server import wait_for_port

# It knows only rcv-settle-mode first (and echoes settlements all the same), and
# sends beyond the credit when flow frames cross deliveries.
_ALLOWANCES = ("--settles-first", "--tolerate-overrun")

_USER = "guest"
_FAN_OUT = "bench"
FAN_OUT_ADDRESS = f"/exchange/{_FAN_OUT}/any"
FAN_OUT_QUEUES = f"/amq/queue/{_FAN_OUT}-"
"""With a number behind it, the address of one queue of the fan-out."""


class RabbitMQ:
    """One node with the AMQP 1.0 plugin, from `__enter__` to `__exit__`."""

    def __init__(self, fan_out: int = 0) -> None:
        self._fan_out = fan_out
        script = find_rabbitmq()
        if script is None:
            raise MissingPrerequisite(f"RabbitMQ is missing: {RABBITMQ_INSTALL}")
        self._script = script
        self._folder = Path(tempfile.mkdtemp(prefix="bench-rabbitmq-"))
        self._port = free_port()
        self._tls_port = free_port()
        self._name_service_port = free_port()

    @property
    def target(self) -> Target:
        return Target(
            port=self._port,
            tls_port=self._tls_port,
            user=_USER,
            password=_USER,
            address="/queue/bench",
            allowances=_ALLOWANCES,
        )

    @property
    def pid(self) -> int:
        return self._node.pid

    def __enter__(self) -> Self:
        self._write_settings()
        environment = self._environment()
        with (self._folder / "output").open("wb") as output:
            # Started here, or the node would leave one behind as a daemon.
            self._name_service = subprocess.Popen(
                ["epmd"], env=environment, stdout=output, stderr=output
            )
            self._node = subprocess.Popen(
                [str(self._script)], env=environment, stdout=output, stderr=output
            )
        try:
            wait_for_port(self._node, self._port)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        stop(self._node)
        stop(self._name_service)
        shutil.rmtree(self._folder)

    def _write_settings(self) -> None:
        self._make_certificate()
        (self._folder / "plugins").write_text("[rabbitmq_amqp1_0].\n")
        (self._folder / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = 127.0.0.1:{self._port}\n"
            f"listeners.ssl.1 = 127.0.0.1:{self._tls_port}\n"
            f"ssl_options.certfile = {self._folder}/certificate.pem\n"
            f"ssl_options.keyfile = {self._folder}/key.pem\n"
            f"load_definitions = {self._folder}/definitions.json\n"
        )
        definitions = json.dumps(_definitions(self._fan_out))
        (self._folder / "definitions.json").write_text(definitions)

    def _make_certificate(self) -> None:
        subprocess.run(
            # The kind of key that twinbus makes for itself.
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1"
            " -nodes -days 2 -subj /CN=localhost -keyout key.pem -out certificate.pem"
            "".split(),
            cwd=self._folder,
            check=True,
            capture_output=True,
        )

    def _environment(self) -> dict[str, str]:
        return os.environ | {
            "HOME": str(self._folder),  # where Erlang keeps its cookie
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self._name_service_port),
            "RABBITMQ_NODENAME": "bench@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(self._folder / "data"),
            "RABBITMQ_LOG_BASE": str(self._folder / "log"),
            "RABBITMQ_CONFIG_FILE": str(self._folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self._folder / "plugins"),
        }


def _definitions(fan_out: int) -> dict[str, Any]:
    """The usual user, which a node with definitions lacks, and a fan-out exchange with
    that many durable queues."""
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    durable = {"vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
    queues = [f"{_FAN_OUT}-{number}" for number in range(fan_out)]
    exchange = {"name": _FAN_OUT, "type": "fanout", "internal": False}
    binding = {"source": _FAN_OUT, "vhost": "/", "destination_type": "queue"}
    binding |= {"routing_key": ""}
    return {
        "users": [{"name": _USER, "password_hash": _password_hash(), "tags": ""}],
        "vhosts": [{"name": "/"}],
        "permissions": [{"user": _USER, "vhost": "/"} | everything],
        "exchanges": [exchange | durable],
        "queues": [{"name": queue} | durable for queue in queues],
        "bindings": [
            binding | {"destination": queue, "arguments": {}} for queue in queues
        ],
    }


def _password_hash() -> str:
    salt = secrets.token_bytes(4)
    return b64encode(salt + sha256(salt + _USER.encode()).digest()).decode()
