"""The options of a replay."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from twinbus.spark.connection import SparkConnection
from twinbus.spark.secret import Secret

TIMEOUT_MS: Final = 300_000


class ReplayedLife(StrEnum):
    """What becomes of the time to live of a message."""

    # Its own, beginning again when it is replayed.
    KEEP = "keep"
    # It expires when it would have; what has expired is not sent.
    REMAINING = "remaining"
    # None of its own: that of the entity.
    RESET = "reset"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """What of a lake is sent, and where to.

    The credential is a reference to a connection string, `env:NAME` or `file:/PATH`,
    which is read on the driver and on every executor.
    """

    credential: str
    lake: str
    # The same id twice sends a message once.
    replay_id: str
    # Of the lake; none: all.
    entities: tuple[str, ...] = ()
    # Enqueued at this time or later, and before that one; milliseconds.
    start_at: int | None = None
    end_at: int | None = None
    # Both are in it.
    from_sequence: int | None = None
    to_sequence: int | None = None
    # A condition in Spark's SQL, over the columns of the lake.
    where: str | None = None
    # Where messages of an entity go; of the others: where they came from.
    targets: Mapping[str, str] = field(default_factory=dict)
    # Where all go, instead.
    target: str | None = None
    life: ReplayedLife = ReplayedLife.KEEP
    keeps_schedule: bool = True
    # Messages a second; None: as fast as it goes.
    rate: float | None = None
    is_dry_run: bool = False
    # Send to another namespace than that of the lake.
    allows_other_namespace: bool = False
    timeout_ms: int = TIMEOUT_MS

    def connection(self) -> SparkConnection:
        """Raises SecretError."""
        return SparkConnection(secret=Secret.parse("credential", self.credential))
