"""Runs `twinbus log export` beside the server, in a process of its own.

The export uses CPU and memory, and pyarrow. None of that belongs into the process that
serves clients, and its end must not end that one. So it is started again.
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from typing import Final, final

from twinbus.clock import Clock
from twinbus.cluster.restarts import Restarts
from twinbus.config.config import Config

_log = logging.getLogger(__name__)

_STOP_SECONDS: Final = 20.0
"""For the last file; then it is killed, and the next export writes that file."""


@final
class LogExporter:
    """The exporter of one server."""

    def __init__(self, config: Config, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """Of the running process."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep(), name="log-exporter")

    async def stop(self) -> None:
        """Call it after the stores were closed: it exports the rest."""
        self._stopping.set()
        self._signal(signal.SIGTERM)
        if self._task is None:
            return
        _, left = await asyncio.wait({self._task}, timeout=_STOP_SECONDS)
        if left:
            _log.warning("the export of the operation log does not stop, and is killed")
            self._signal(signal.SIGKILL)
            await self._task

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)

    async def _keep(self) -> None:
        restarts = Restarts()
        code = -1
        while not self._stopping.is_set():
            restarts.started(self._clock.monotonic())
            code = await self._run_once("--follow", "--with-parent")
            if self._stopping.is_set():
                break
            pause_ms = restarts.ended(self._clock.monotonic())
            _log.error(
                "the export of the operation log has ended with %d; the next start is "
                "in %d ms",
                *(code, pause_ms),
            )
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause_ms / 1000)
                code = -1
        if code != 0:
            # It was not running, or told to stop before it had begun.
            await self._run_once()

    async def _run_once(self, *flags: str) -> int:
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "twinbus", "log", "export", *flags),
            *("--folder", self._config.operation_log_folder),
            *self._retention(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            env=self._variables(),
            # Ctrl-C in a terminal reaches the server, which stops the exporter last.
            start_new_session=True,
        )
        if flags and self._stopping.is_set():
            self._signal(signal.SIGTERM)
        return await self._process.wait()

    def _retention(self) -> list[str]:
        config, flags = self._config, []
        if config.operation_log_keep:
            flags += ["--keep", config.operation_log_keep]
        if config.operation_log_megabytes:
            flags += ["--keep-megabytes", str(config.operation_log_megabytes)]
        return flags

    def _variables(self) -> dict[str, str]:
        """The settings are in variables, because a store's URL may have a password,
        which others could read in the list of processes."""
        config = self._config
        variables = {**os.environ, "TWINBUS_DATA": str(config.data)}
        variables["TWINBUS_NAMESPACE"] = config.namespace
        variables.pop("TWINBUS_CONFIG", None)
        variables.pop("TWINBUS_STORE", None)
        if config.store:
            variables["TWINBUS_STORE"] = " ".join(config.store)
        return variables
