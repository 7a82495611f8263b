"""A process of this bench: given its task on stdin, it tells at the end what it did."""

import json
import signal
import subprocess
import sys
import tempfile
from typing import Any, Final

from bench.attackers.aim import Aim

_PATIENCE_SECONDS: Final = 90.0


class Worker:
    """`python -m bench.attackers.MODULE`, ended by SIGTERM."""

    def __init__(self, module: str, aim: Aim, *arguments: str) -> None:
        # To a file: what it says may be more than a pipe holds.
        self._said = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"bench.attackers.{module}", *arguments],
            stdin=subprocess.PIPE,
            stdout=self._said,
        )
        assert self._process.stdin is not None
        self._process.stdin.write(aim.to_json().encode())
        self._process.stdin.close()

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def tell_to_stop(self) -> None:
        if not self.has_ended:
            self._process.send_signal(signal.SIGTERM)

    def told(self) -> dict[str, Any]:
        """What it printed at its end; empty if it printed nothing."""
        try:
            self._process.wait(_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        self._said.seek(0)
        text = self._said.read()
        found: dict[str, Any] = json.loads(text) if text else {}
        return found

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
