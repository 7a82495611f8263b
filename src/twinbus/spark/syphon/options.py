"""The options of a run of the job."""

import re
from dataclasses import dataclass
from typing import Final

from twinbus.pairing.coverage import covers_any
from twinbus.pairing.syphon.settings import SyphonSettings
from twinbus.pairing.syphon.syphon import TRANSFER
from twinbus.spark.connection import SparkConnection
from twinbus.spark.secret import Secret

MAX_MESSAGES: Final = 50_000
"""Messages of a batch: some seconds of work, so that its fixed costs matter little."""

TIMEOUT_MS: Final = 60_000
LEASE_MS: Final = 30_000

LEASE_WAIT_MS: Final = 10 * 60_000
"""How long to wait for another run that drains the same backlog."""

INTERVAL_MS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SyphonOptions:
    """Which pair, and how.

    The two sides are references to connection strings, `env:NAME` or `file:/PATH`,
    which are read on the driver and on every executor. So no secret is ever part of a
    plan, a log or the configuration of Spark.
    """

    primary: str
    secondary: str
    # The primary's name in the paths of the backlog queues.
    primary_name: str
    # The secondary's name in the primary's ledger; None: its host.
    secondary_name: str | None = None
    # Patterns of entities that messages may go to; none: all.
    cover: tuple[str, ...] = ()
    # The time in the backlog is part of a message's time to live.
    counts_backlog: bool = False
    # A folder or a URL; None: a folder that is removed at the end.
    checkpoint: str | None = None
    # Run until it is told to stop, and not until the backlog is empty.
    is_continuous: bool = False
    max_messages: int = MAX_MESSAGES
    # How long to wait for a side that does not answer.
    timeout_ms: int = TIMEOUT_MS
    # How long messages wait for an entity that does not exist.
    missing_entity_grace_ms: int = 0
    lease_ms: int = LEASE_MS
    lease_wait_ms: int = LEASE_WAIT_MS
    # Between two looks of a continuous run.
    interval_ms: int = INTERVAL_MS

    def connection(self, side: str) -> SparkConnection:
        """Of `primary` or `secondary`. Raises SecretError."""
        return SparkConnection(secret=Secret.parse(side, getattr(self, side)))

    @property
    def pattern(self) -> str:
        """All backlog queues, and not the queue of the lease beside them."""
        return f"{self.primary_name}/{TRANSFER}/[0-9]*"

    @property
    def first_queue(self) -> str:
        """The path of the first backlog queue, which every pair has."""
        return f"{self.primary_name}/{TRANSFER}/0"

    def is_backlog_queue(self, path: str) -> bool:
        """Whether a path that matches the pattern is a backlog queue."""
        prefix = re.escape(f"{self.primary_name}/{TRANSFER}/")
        flags = re.ASCII | re.IGNORECASE
        return re.fullmatch(prefix + r"\d+", path, flags) is not None

    def settings(self) -> SyphonSettings:
        """The settings for the functions of the in-process syphon."""
        return SyphonSettings(
            covers=covers_any(self.cover),
            count_backlog_against_ttl=self.counts_backlog,
            missing_entity_grace_ms=self.missing_entity_grace_ms,
        )
