"""A bus in the test's process: real server, real store, its own thread and clock.

It listens on a free port of the loopback interface and speaks AMQP: it is the real
server. Only the time is controlled by the test: locks, time to live and schedules
follow `advance`. Heartbeats and deadlines of connections follow the machine's clock, so
that advancing the time does not disconnect an idle SDK.
"""

import asyncio
import dataclasses
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import suppress
from datetime import datetime, timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import uvloop

from twinbus.broker.descriptions.access_rule import ROOT_KEY_NAME, AccessRule
from twinbus.clock import SystemClock
from twinbus.config.config import Config
from twinbus.entities.namespace import Namespace
from twinbus.errors import InternalError, ServerBusy
from twinbus.instants import instant_of
from twinbus.owner.store_owner import StoreOwner
from twinbus.process.certificates import ca_file, tls_context
from twinbus.process.server import Server
from twinbus.store.base import Store
from twinbus.store.memory import MemoryDisk, MemoryStore
from twinbus.store.memory_catalog import MemoryCatalog
from twinbus.testing.bus_entities import BusEntities, delete_all
from twinbus.testing.bus_namespace import BusNamespace
from twinbus.testing.clock import ManualClock
from twinbus.testing.faults import BusFaults
from twinbus.testing.kept_port import keep_any_port, keep_port

T = TypeVar("T")

_WAIT_SECONDS = 30

_OF_THE_KIT: Final = ("data", "port", "http_port", "tls_port", "key", "rules")
"""Settings that the bus for tests makes itself."""


class _BusClock:
    """The test's time for messages, the machine's time for connections."""

    def __init__(self, manual: ManualClock) -> None:
        self._manual = manual
        self._system = SystemClock()

    def now(self) -> int:
        return self._manual.now()

    def monotonic(self) -> int:
        return self._system.monotonic()


class Bus(BusEntities):
    """A bus for tests, to be used in a `with` statement."""

    def __init__(
        self,
        *,
        store: str = "sqlite",
        stores: int = 1,
        tls: bool = False,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        if store not in ("sqlite", "memory"):
            raise ValueError(f"store must be 'sqlite' or 'memory', not {store!r}")
        if stores < 1:
            raise ValueError(f"stores must be at least 1, not {stores}")
        self._is_volatile = store == "memory"
        self._has_tls = tls
        self._settings = _checked(settings or {})
        self.clock = ManualClock()
        # The data folder, used with SQLite.
        self.folder = Path(tempfile.mkdtemp(prefix="twinbus-"))
        self._rules = {
            claims: _rule(claims)
            for claims in (("Send",), ("Listen",), ("Send", "Listen"), ("Manage",))
        }
        self.key_name = ROOT_KEY_NAME
        self.key = "key-of-the-test-bus"
        kept = keep_any_port()
        self.port: int = kept.getsockname()[1]
        # Gives back the port of a bus that does not run.
        self._release_port: Callable[[], object] = weakref.finalize(self, kept.close)
        # One for each store, used with stores in memory.
        self._disks = [
            MemoryDisk(name=str(number) if stores > 1 else "")
            for number in range(1, stores + 1)
        ]
        self._catalog = MemoryCatalog()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._server: Server | None = None

    # --- life -----------------------------------------------------------------

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
        self._release_port()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self) -> None:
        """Start the server; the port is always the same."""
        if self._server is not None:
            raise RuntimeError("The bus is running; `restart` starts it again.")
        self._release_port()
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="twinbus", daemon=True
        )
        self._thread.start()
        try:
            self._run(self._start())
        except BaseException:
            self._end_loop()
            self._keep_port()
            raise

    async def _start(self) -> None:
        if len(self._disks) > 1 and not self._is_volatile:
            self._settings["store"] = tuple(
                f"sqlite:///{self.folder / f'messages-{number}.sqlite3'}"
                for number in range(len(self._disks))
            )
        config = Config(
            data=self.folder,
            port=self.port,
            http_port=0,
            tls_port=0,
            key=self.key,
            rules=tuple(self._rules.values()),
            **self._settings,
        )
        self._server = Server(
            config,
            clock=_BusClock(self.clock),
            stores=self._stores(),
            catalog=self._catalog if self._is_volatile else None,
            tls=tls_context(config, SystemClock().now()) if self._has_tls else None,
        )
        await self._server.start()

    def _stores(self) -> list[Store] | None:
        """Stores in memory; None: those of the settings."""
        if not self._is_volatile:
            return None
        return [MemoryStore(disk) for disk in self._disks]

    def stop(self) -> None:
        """Stop cleanly, as on SIGTERM."""
        if self._server is None:
            return
        self._run(self._server.stop())
        self._end_loop()
        self._keep_port()

    def _end_loop(self) -> None:
        loop, thread = self._loop, self._thread
        self._loop = self._thread = self._server = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(_WAIT_SECONDS)
            loop.close()

    def restart(self) -> None:
        """Stop and start again on the same data and port."""
        self.stop()
        self.start()

    def _keep_port(self) -> None:
        """Let nobody else take the port until the next start; connecting is refused."""
        # If somebody was quicker, the next start says so.
        with suppress(OSError):
            self._release_port = weakref.finalize(self, keep_port(self.port).close)

    def reset(self) -> None:
        """Make it as it was at the start, for the next test: no entities, no further
        namespaces, no faults, and the time of the machine. Links to entities are
        detached, clients stay."""
        self._run(self._reset())

    async def _reset(self) -> None:
        server = self.server
        if server.faults is not None:
            server.faults.table.clear(None)
        for namespace in server.namespaces:
            if namespace is not server.namespace:
                await server.making.remove(namespace.name)
        await delete_all(server.namespace)
        # Tokens of clients end by the machine's time.
        self.clock.jump(SystemClock().now() - self.clock.now())

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            coroutine.close()
            raise _not_running()
        future: Future[T] = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        return future.result(_WAIT_SECONDS)

    @property
    def server(self) -> Server:
        if self._server is None:
            raise _not_running()
        return self._server

    # --- connecting -----------------------------------------------------------

    @property
    def ca_file(self) -> Path:
        """The authority to trust for TLS: `connection_verify` of the SDKs."""
        return ca_file(Config(data=self.folder))

    @property
    def connection_string(self) -> str:
        """For azure-servicebus, with all claims. It is always the same."""
        return self._connection_string(self.key_name, self.key)

    def connection_string_for(self, *claims: str) -> str:
        """With the key of a rule that has exactly these claims."""
        for named, access in self._rules.items():
            if set(named) == set(claims):
                return self._connection_string(access.key_name, access.primary_key)
        known = "; ".join(", ".join(named) for named in self._rules)
        raise ValueError(f"no rule has exactly the claims {claims}; there are: {known}")

    def _connection_string(self, key_name: str, key: str) -> str:
        return (
            f"Endpoint=sb://localhost:{self.port};SharedAccessKeyName={key_name};"
            f"SharedAccessKey={key};UseDevelopmentEmulator=true"
        )

    # --- namespaces -----------------------------------------------------------

    def _served(self) -> Namespace:
        return self.server.namespace

    def namespace(self, name: str) -> BusNamespace:
        """Make a further namespace, with a key and a port of its own; the one of that
        name, if there is one. Names are letters, digits and hyphens."""
        if self.server.namespaces.named(name) is None:
            with keep_any_port() as kept:
                port = kept.getsockname()[1]
            self._run(self.server.making.create(name, [port]))
        return BusNamespace(self, name)

    # --- faults ---------------------------------------------------------------

    @property
    def faults(self) -> BusFaults:
        """What fails on purpose. The bus needs the setting `allow_faults`."""
        faults = self.server.faults
        if faults is None:
            raise ValueError('start the bus with settings={"allow_faults": True}')
        return BusFaults(faults, self._call)

    def _call(self, function: Callable[[], Any]) -> Any:
        """Call a function in the loop of the bus."""

        async def call() -> Any:
            return function()

        return self._run(call())

    # --- time -----------------------------------------------------------------

    def now(self) -> datetime:
        """The time on the bus's clock."""
        return instant_of(self.clock.now())

    @property
    def owner(self) -> StoreOwner:
        """The owner of the only store."""
        [owner] = self.server.owners
        return owner

    def advance(self, seconds: float | timedelta) -> None:
        """Move the clock; when this returns, everything due has happened."""
        if isinstance(seconds, timedelta):
            seconds = seconds.total_seconds()
        if seconds < 0:
            raise ValueError(f"time passes forwards only, not by {seconds} seconds")
        self._run(self._let_time_pass(round(seconds * 1000)))

    async def _let_time_pass(self, milliseconds: int) -> None:
        owners, namespaces = self.server.owners, self.server.namespaces
        # In the loop, so that the bus does not see the new time before its tick.
        self.clock.advance(milliseconds)
        # The server does this only now and then, by the machine's clock.
        namespaces.tick(self.clock.now())
        while True:
            self.server.tick()
            for namespace in namespaces:
                await namespace.idle.finished()
            serving = owners.serving()
            for owner in serving:
                # One of several stores may be leaving.
                with suppress(ServerBusy, InternalError):
                    await owner.durable()
            if not any(owner.has_due_work() for owner in serving):
                return


def _not_running() -> RuntimeError:
    return RuntimeError("The bus is not running: use it in `with`, or call `start`.")


def _checked(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Raises ValueError if there is no such setting, or it is the kit's."""
    known = [each.name for each in dataclasses.fields(Config)]
    for name in settings:
        if name in _OF_THE_KIT:
            raise ValueError(f"the setting {name!r} is made by the bus for tests")
        if name not in known:
            similar = get_close_matches(name, known, 1)
            meant = f"; did you mean {similar[0]!r}?" if similar else ""
            raise ValueError(f"there is no setting {name!r}{meant}")
    return dict(settings)


def _rule(claims: tuple[str, ...]) -> AccessRule:
    name = "".join(claims).lower()
    return AccessRule(
        key_name=f"{name}-rule", primary_key=f"key-of-{name}", rights=claims
    )
