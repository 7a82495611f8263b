"""The bus that is attacked: a process on a core of its own, watched from outside."""

import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from shutil import rmtree
from typing import Final, Self

from bench.attackers import aim
from bench.attackers.aim import Aim
from bench.free_port import free_port
from bench.processes import usage_of
from bench.server import START_PATIENCE_SECONDS, ServerFailed

STOP_PATIENCE_SECONDS: Final = 60.0
"""Twelve times what it may take; a bus that is still there is killed."""

_SAMPLE_SECONDS: Final = 0.1


class Victim:
    """`twinbus serve` with all that the attacks need; `with` makes sure of its end."""

    def __init__(self, core: int, source: Path | None) -> None:
        self._core = core
        # Another tree of twinbus than the one at hand.
        self._source = source
        self._folder = Path(tempfile.mkdtemp(prefix="bench-attackers-"))
        names = (aim.ROOT, aim.SENDER, aim.LISTENER)
        keys = {name: secrets.token_urlsafe(32) for name in names}
        self.aim = Aim(port=free_port(), keys=keys)
        self.most_bytes = 0
        self._is_watched = True
        self._watch = threading.Thread(target=self._look_at_memory, daemon=True)

    def __enter__(self) -> Self:
        try:
            (self._folder / "bus.toml").write_text(_config(self.aim))
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._is_watched = False
        if hasattr(self, "_process"):
            self._process.kill()
            self._process.wait()
        rmtree(self._folder)

    def _start(self) -> None:
        environment = dict(os.environ)
        if self._source is not None:
            environment["PYTHONPATH"] = str(self._source.resolve() / "src")
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "twinbus", "serve"),
                    *("--config", str(self._folder / "bus.toml")),
                    *("--data", str(self._folder / "data")),
                    *("--port", str(self.aim.port)),
                    *("--http-port", "0", "--tls-port", "0"),
                ],
                env={**environment, "TWINBUS_KEY": self.aim.keys[aim.ROOT]},
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        os.sched_setaffinity(self._process.pid, {self._core})
        alarm = threading.Timer(START_PATIENCE_SECONDS, self._process.kill)
        alarm.start()
        assert self._process.stdout is not None
        is_ready = any(line.strip() == b"ready" for line in self._process.stdout)
        alarm.cancel()
        if not is_ready:
            raise ServerFailed(self._errors.read_text()[-2000:])

    @property
    def _errors(self) -> Path:
        return self._folder / "errors"

    @property
    def traceback_count(self) -> int:
        """Bugs that it wrote to its log."""
        return self._errors.read_text(errors="replace").count("Traceback")

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def watch_memory(self) -> None:
        """From now on `most_bytes` is the most that it held."""
        self._watch.start()

    def _look_at_memory(self) -> None:
        while self._is_watched:
            resident = usage_of([self._process.pid]).resident_bytes
            self.most_bytes = max(self.most_bytes, resident)
            time.sleep(_SAMPLE_SECONDS)

    def stop_seconds(self) -> float:
        """SIGTERM, and how long it takes; the patience if it had to be killed."""
        self._is_watched = False
        started = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        return time.monotonic() - started


def _config(found: Aim) -> str:
    lock = 'lock_duration = "PT5M"\n'
    parts = [
        _access_rule(aim.SENDER, "Send", found),
        _access_rule(aim.LISTENER, "Listen", found),
        *(f"[queues.{name}]\n{lock}" for name in (aim.GOOD_QUEUE, aim.SMALL)),
        # Whoever holds its messages loses them soon, and others get them again.
        f'[queues.{aim.LARGE}]\nlock_duration = "PT5S"\n',
        f'[queues.{aim.DEFERRED}]\nlock_duration = "PT5S"\n',
        f"[queues.{aim.TARGET}]\n[topics.{aim.TOPIC}.subscriptions.all]\n",
        *(_like_rule(number) for number in range(aim.RULE_COUNT)),
        *(f"[queues.{aim.token_queue(n)}]\n" for n in range(aim.TOKEN_QUEUES)),
    ]
    return "".join(parts)


def _access_rule(name: str, right: str, found: Aim) -> str:
    return (
        f'[[rules]]\nkey_name = "{name}"\nprimary_key = "{found.keys[name]}"\n'
        f'rights = ["{right}"]\n'
    )


def _like_rule(number: int) -> str:
    """As long as a filter may be, with what it cannot look for as a text."""
    pattern = f"%{'a' * 900}_{number}%"
    return (
        f"[[topics.{aim.TOPIC}.subscriptions.all.rules]]\n"
        f'name = "rule-{number}"\nsql_filter = "p LIKE \'{pattern}\'"\n'
    )
