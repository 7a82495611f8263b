"""Writes a diagnosis of a running server into its data folder."""

import asyncio
import logging
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from twinbus.auth.policy import Policy
from twinbus.clock import Clock
from twinbus.config.config import Config
from twinbus.diagnosis.bundle import FOLDER, write_bundle
from twinbus.diagnosis.sections import parts_of
from twinbus.diagnosis.sickness import Sickness
from twinbus.owner.store_owner import StoreOwner

_log = logging.getLogger(__name__)

ASKED_FOR: Final = Sickness("asked", "somebody asked for it")
STUCK: Final = Sickness("stuck", "the loop does not turn any more")
SILENT: Final = Sickness(
    "silent",
    "the loop has not turned for seconds, and other brokers may take the stores",
)
_GOES_ON: Final = (ASKED_FOR, SILENT)
"""After these the server does not end by itself."""


class ServerDiagnosis:
    """Of one server."""

    def __init__(
        self,
        config: Config,
        policies: Callable[[], Iterable[Policy]],
        clock: Clock,
        owners: Sequence[StoreOwner],
        connections: Callable[[], Iterable[str]],
        broker: str = "",
    ) -> None:
        """`broker`: the name of this one among several."""
        self._broker = broker
        self._config = config
        self._clock = clock
        self._owners = owners
        # Describes those that are open.
        self._connections = connections
        # Rules of all namespaces with their keys, which are not written.
        self._policies = policies
        # Set when the server starts: a thread asks, too.
        self.loop: asyncio.AbstractEventLoop | None = None
        # The last one that was written before others would have ended the process.
        self._early: Path | None = None

    @property
    def last_resort(self) -> Path:
        """The file for the stacks of a process in which no Python code runs."""
        return self._config.data / FOLDER / "last-resort.txt"

    def write(self, why: Sickness) -> Path:
        """The folder of the diagnosis. Raises OSError."""
        loop = self.loop
        assert loop is not None, "the server has not started"
        parts = parts_of(
            *(self._config, self._owners, self._connections),
            *(loop, self._clock.monotonic()),
        )
        return write_bundle(
            self._config.data,
            why,
            parts,
            _secrets(self._config, self._policies()),
            now=self._clock.now(),
            kept_count=self._config.max_diagnoses,
            broker=self._broker,
        ).absolute()

    def try_to_write(self, why: Sickness) -> Path | None:
        """For those who cannot do anything about an error."""
        try:
            folder = self.write(why)
        except OSError as error:
            _log.error("the diagnosis can't be written: %s", error)
            return None
        level = logging.WARNING if why in _GOES_ON else logging.CRITICAL
        _log.log(level, "%s; a diagnosis is in %s", why.text, folder)
        return folder

    def write_early(self) -> None:
        """Before others end this process, if they do. It has outlived the last one, so
        that goes first: otherwise it might push out one that is wanted."""
        if self._early is not None:
            shutil.rmtree(self._early, ignore_errors=True)
        self._early = self.try_to_write(SILENT)


def _secrets(config: Config, policies: Iterable[Policy]) -> tuple[str, ...]:
    keys = [config.key]
    for policy in policies:
        keys += policy.secrets()
    keys += [one.key for one in config.namespaces.values()]
    if config.pair is not None:
        keys += [config.pair.primary, config.pair.secondary]
    return tuple(key for key in keys if key)
