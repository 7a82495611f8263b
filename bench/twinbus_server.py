"""`twinbus serve` on a data folder, as a user starts it.

The data folder outlives a stop, so the same object can be started again: that is
how restarts are measured. `ready_seconds` is the time from the start of the
process to the line `ready` on its output. `source` is another tree of twinbus than
the one at hand, to compare the two; `under` a program that runs the server, and
`module` what is run instead of `twinbus`. With several `stores` their files are in
the data folder; several `brokers` share them.
"""

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Self

from bench.free_port import free_port
from bench.load_client import Target
from bench.processes import stop
from bench.server import START_PATIENCE_SECONDS, ServerFailed

_KEY_NAME = "RootManageSharedAccessKey"
_QUEUE = "bench"

IS_PLAIN = os.environ.get("TWINBUS_PURE", "") not in ("", "0")
"""Where a bench does not choose, its servers are plain Python if it is."""

# The largest quota there is: five million small messages are over the usual one.
_CONFIG = f"""\
[queues.{_QUEUE}]
max_size_in_megabytes = 5120
"""


class TwinbusServer:
    """A server with one queue; start and stop it as often as you like."""

    def __init__(
        self,
        is_plain: bool = IS_PLAIN,
        config: str = _CONFIG,
        source: Path | None = None,
        under: tuple[str, ...] = (),
        module: str = "twinbus",
        stores: int = 1,
        store: str = "",
        brokers: int = 1,
    ) -> None:
        self._stores = stores
        self._brokers = brokers
        self._config = config
        # A URL; empty: the embedded store, or several of them.
        self._store = store
        self._program = (*under, sys.executable, "-m", module)
        # A program that watches every instruction takes its time.
        self._patience_seconds = START_PATIENCE_SECONDS * (10 if under else 1)
        self._folder = Path(tempfile.mkdtemp(prefix="bench-twinbus-"))
        self._key = secrets.token_urlsafe(32)
        self._port = free_port()
        self._tls_port = free_port()
        # A variable and not a flag: a tree that does not know it does not mind.
        self._environment = os.environ | {
            "TWINBUS_PURE": "1" if is_plain else "0",
            "TWINBUS_HTTP_PORT": "0",
        }
        if source is not None:
            self._environment["PYTHONPATH"] = str(source.resolve() / "src")
        self._is_ready = threading.Event()
        self._ready_at: float | None = None
        self.ready_seconds = 0.0

    @property
    def target(self) -> Target:
        return Target(
            port=self._port,
            tls_port=self._tls_port,
            user=_KEY_NAME,
            password=self._key,
            address=_QUEUE,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def data_bytes(self) -> int:
        files = (self._folder / "data").rglob("*")
        return sum(file.stat().st_size for file in files if file.is_file())

    def __enter__(self) -> Self:
        try:
            (self._folder / "config.toml").write_text(self._config)
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
        shutil.rmtree(self._folder)

    def start(self) -> None:
        """Start the process and wait for `ready`."""
        self._is_ready.clear()
        self._ready_at = None
        started = time.monotonic()
        with (self._folder / "errors").open("ab") as errors:
            self._process = subprocess.Popen(
                [*self._program, *self._arguments()],
                env=self._environment,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        self._reader = threading.Thread(target=self._read_output, daemon=True)
        self._reader.start()
        self._is_ready.wait(self._patience_seconds)
        if self._ready_at is None:
            raise ServerFailed((self._folder / "errors").read_text()[-2000:])
        self.ready_seconds = self._ready_at - started

    def stop(self) -> None:
        """Stop the process cleanly; the data stays."""
        if hasattr(self, "_process"):
            stop(self._process)
            self._reader.join()

    def _arguments(self) -> list[str]:
        return [
            "serve",
            *("--config", str(self._folder / "config.toml")),
            *("--data", str(self._folder / "data")),
            *("--port", str(self._port), "--tls-port", str(self._tls_port)),
            *("--key", self._key),
            *self._store_flags(),
            *(("--brokers", str(self._brokers)) if self._brokers > 1 else ()),
        ]

    def _store_flags(self) -> list[str]:
        if self._store:
            return ["--store", self._store]
        if self._stores == 1:
            return []
        data = self._folder / "data"
        urls = [f"sqlite:///{data}/{n}.sqlite3" for n in range(self._stores)]
        return [word for url in urls for word in ("--store", url)]

    def _read_output(self) -> None:
        """Until the process ends: its output must not fill the pipe."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.strip() == b"ready":
                self._ready_at = time.monotonic()
                self._is_ready.set()
        self._is_ready.set()  # an end without `ready` ends the waiting as well
