"""Three brokers with the face of `twinbus.testing.Bus`: for the set-up `brokers`.

They are processes of `twinbus serve --brokers 3`, so there is no `server` to look into:
what a case asks of the bus, it asks over AMQP.
"""

import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Self

from crash.server_process import environment

from bench.free_port import free_port
from twinbus.amqp.sasl import plain
from twinbus.auth import sas
from twinbus.broker.descriptions.access_rule import AccessRule
from twinbus.client import connect
from twinbus.client.management import ask_namespace
from twinbus.clock import SystemClock
from twinbus.config.config import ROOT_KEY_NAME, Config
from twinbus.config.entities import entity_properties
from twinbus.errors import ServerBusy
from twinbus.instants import instant_of
from twinbus.process.certificates import ca_file
from twinbus.rules.rule import DEFAULT_RULE, Rule
from twinbus.testing.rules import rule

from . import clocked_twinbus
from .clocked_twinbus import ClockFile

COUNT = 3

# Bounds against hanging; never waited out.
_PATIENCE_SECONDS = 60.0
_SHOWN_CHARACTERS = 20_000
_TOKEN_MS = 600_000
_CLAIMS = (("Send",), ("Listen",), ("Send", "Listen"), ("Manage",))


class BrokersBus:
    """To be used in a `with` statement, like `Bus`. It always speaks TLS, too."""

    def __init__(self, settings: Mapping[str, Any] | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="brokers-"))
        self.key_name = ROOT_KEY_NAME
        self.key = "key-of-the-test-bus"
        self.port = free_port()
        self.clock = ClockFile.make(self.folder / "clock", SystemClock().now())
        self._allows_faults = bool((settings or {}).get("allow_faults"))
        self._process: subprocess.Popen[str] | None = None
        (self.folder / "bus.toml").write_text(self._config(settings or {}))

    def _config(self, settings: Mapping[str, Any]) -> str:
        values = {"key": self.key, **settings}
        lines = ["[server]", *_as_toml(values)]
        for claims in _CLAIMS:
            lines += ["[[rules]]", *_as_toml(asdict(_rule(claims)))]
        return "\n".join(lines)

    # --- life -----------------------------------------------------------------

    def __enter__(self) -> Self:
        self.start()
        # The start took seconds, and the SDK goes by the machine's clock: a lock of
        # before would be over for it.
        self.advance(max(0, SystemClock().now() - self.clock.now()) / 1000)
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
        # pytest shows it if the test fails.
        print((self.folder / "log").read_text()[-_SHOWN_CHARACTERS:])
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self) -> None:
        stores = [f"--store=sqlite:///{self.folder}/{n}.sqlite3" for n in range(COUNT)]
        with (self.folder / "log").open("a") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, clocked_twinbus.__file__, "serve"),
                    *("--data=data", "--config=bus.toml", f"--brokers={COUNT}"),
                    *(f"--port={self.port}", "--http-port=0"),
                    f"--tls-port={self.port}",
                    *stores,
                ],
                cwd=self.folder,
                env={
                    **environment(),
                    clocked_twinbus.VARIABLE: str(self.folder / "clock"),
                },
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._wait_until_ready(self._process)

    def _wait_until_ready(self, process: subprocess.Popen[str]) -> None:
        overdue = threading.Timer(_PATIENCE_SECONDS, process.kill)
        overdue.start()
        assert process.stdout is not None
        is_ready = any(line == "ready\n" for line in process.stdout)
        overdue.cancel()
        if not is_ready:
            self.stop()
            raise AssertionError((self.folder / "log").read_text())

    def stop(self) -> None:
        """Stop cleanly, as on SIGTERM."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.communicate(timeout=_PATIENCE_SECONDS)
        finally:
            # Brokers notice that their supervisor is gone.
            self._process.kill()
            self._process = None

    def restart(self) -> None:
        self.stop()
        self.start()

    # --- connecting -----------------------------------------------------------

    @property
    def ca_file(self) -> Path:
        return ca_file(Config(data=self.folder / "data"))

    @property
    def connection_string(self) -> str:
        return self._connection_string(self.key_name, self.key)

    def connection_string_for(self, *claims: str) -> str:
        for named in _CLAIMS:
            if set(named) == set(claims):
                access = _rule(named)
                return self._connection_string(access.key_name, access.primary_key)
        raise ValueError(f"no rule has the claims {claims}")

    def _connection_string(self, key_name: str, key: str) -> str:
        return (
            f"Endpoint=sb://localhost:{self.port};SharedAccessKeyName={key_name};"
            f"SharedAccessKey={key};UseDevelopmentEmulator=true"
        )

    # --- entities -------------------------------------------------------------

    def create_queue(self, path: str, **properties: Any) -> None:
        self._ask("create-queue", path, properties=_as_json(properties))

    def update_queue(self, path: str, **properties: Any) -> None:
        self._ask("update-entity", path, properties=_as_json(properties))

    def delete_queue(self, path: str) -> None:
        self._ask("delete-entity", path)

    def create_topic(self, path: str, **properties: Any) -> None:
        self._ask("create-topic", path, properties=_as_json(properties))

    update_topic = update_queue
    delete_topic = delete_queue

    def create_subscription(
        self,
        topic: str,
        name: str,
        rules: Sequence[Rule] | None = None,
        **properties: Any,
    ) -> None:
        path = _subscription_path(topic, name)
        self._ask("create-subscription", path, properties=_as_json(properties))
        if rules is not None:
            self.remove_rule(topic, name, DEFAULT_RULE)
            for one in rules:
                self.add_rule(topic, name, one)

    def update_subscription(self, topic: str, name: str, **properties: Any) -> None:
        self.update_queue(_subscription_path(topic, name), **properties)

    def delete_subscription(self, topic: str, name: str) -> None:
        self.delete_queue(_subscription_path(topic, name))

    def add_rule(
        self, topic: str, subscription: str, name: Rule | str, **parts: Any
    ) -> None:
        added = rule(name, **parts) if isinstance(name, str) else name
        path = _subscription_path(topic, subscription)
        self._ask("create-rule", path, rule=json.dumps(added.to_json()))

    def remove_rule(self, topic: str, subscription: str, name: str) -> None:
        path = f"{_subscription_path(topic, subscription)}/Rules/{name}"
        self._ask("delete-entity", path)

    def described(self, path: str) -> Any:
        """The entity as `twinbus entities show --json` tells it. Raises
        MessagingEntityNotFound."""
        return self._ask("get-entity", path)

    def _ask(self, operation: str, path: str, **arguments: str) -> Any:
        """Raises ServiceBusError. A rule is changed by its owner alone, so the next
        connection may be the one."""
        ends_at = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                return asyncio.run(self._asked(operation, {"path": path, **arguments}))
            except ServerBusy:
                if time.monotonic() > ends_at:
                    raise

    @property
    def faults(self) -> "BrokersFaults":
        """Raises ValueError."""
        if not self._allows_faults:
            raise ValueError("the setting allow_faults is missing")
        return BrokersFaults(self.asked_faults)

    def asked_faults(self, method: str, path: str = "", body: object = None) -> Any:
        """The answer of `/$faults`, by any broker."""
        token = sas.make(
            resource=f"sb://localhost:{self.port}/",
            key_name=self.key_name,
            key=self.key,
            expires_at=self.clock.now() + _TOKEN_MS,
        )
        connection = HTTPConnection("localhost", self.port, timeout=_PATIENCE_SECONDS)
        content = None if body is None else json.dumps(body)
        target = f"/$faults{path}"
        connection.request(method, target, content, {"authorization": token})
        answer = json.loads(connection.getresponse().read())
        connection.close()
        # All brokers are there, so none may be missing.
        assert not answer.get("error"), answer
        assert answer["missing"] == [], answer
        return answer

    async def _asked(self, operation: str, arguments: Mapping[str, str]) -> Any:
        sasl = plain(self.key_name, self.key)
        async with await connect("127.0.0.1", self.port, sasl=sasl) as connection:
            return await ask_namespace(connection, operation, arguments)

    # --- time -----------------------------------------------------------------

    def now(self) -> datetime:
        return instant_of(self.clock.now())

    def advance(self, seconds: float | timedelta) -> None:
        """Move the clock; when this returns, everything due has happened."""
        if isinstance(seconds, timedelta):
            seconds = seconds.total_seconds()
        self.clock.advance(round(seconds * 1000))
        ends_at = time.monotonic() + _PATIENCE_SECONDS
        while any(
            self.clock.done_until(broker) < self.clock.now()
            for broker in range(1, COUNT + 1)
        ):
            assert time.monotonic() < ends_at, "the brokers do not follow the clock"
            time.sleep(0.005)


class BrokersFaults:
    """As `Bus.faults`, of all brokers."""

    def __init__(self, ask: Callable[..., Any]) -> None:
        self._ask = ask

    def set(self, effect: str, *, lasts: str | None = None, **parts: Any) -> int:
        written = {"effect": effect, "for": lasts, **parts}
        number: int = self._ask("POST", body=written)["number"]
        return number

    def clear(self, number: int | None = None) -> None:
        self._ask("DELETE", "" if number is None else f"/{number}")

    def active(self) -> Sequence[Mapping[str, Any]]:
        found: Sequence[Mapping[str, Any]] = self._ask("GET")["faults"]
        return found


def _subscription_path(topic: str, name: str) -> str:
    return f"{topic}/Subscriptions/{name}"


def _as_json(properties: Mapping[str, Any]) -> str:
    return json.dumps(entity_properties(properties), default=_plain)


def _plain(value: Any) -> Any:
    return asdict(value)


def _as_toml(values: Mapping[str, Any]) -> list[str]:
    return [f"{name} = {json.dumps(value)}" for name, value in values.items()]


def _rule(claims: tuple[str, ...]) -> AccessRule:
    name = "".join(claims).lower()
    return AccessRule(
        key_name=f"{name}-rule", primary_key=f"key-of-{name}", rights=claims
    )
