"""The options of a capture."""

from dataclasses import dataclass
from typing import Final

from twinbus.spark.connection import SparkConnection
from twinbus.spark.secret import Secret

SUBSCRIPTION: Final = "twinbus-capture"
WINDOW_MS: Final = 300_000
MAX_MESSAGES: Final = 250_000
MAX_BYTES: Final = 256 << 20
TIMEOUT_MS: Final = 300_000
COMPACT_FILES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureOptions:
    """Which entities of which namespace, and into which lake.

    The credential is a reference to a connection string, `env:NAME` or `file:/PATH`,
    which is read on the driver and on every executor.
    """

    credential: str
    # A folder that all hosts share, or a URL.
    lake: str
    # Paths: queues, topics, TOPIC/subscriptions/NAME, PATH/$deadletterqueue.
    entities: tuple[str, ...] = ()
    # Also queues and subscriptions that match, with * and ?; new ones are found.
    pattern: str | None = None
    # Take messages of queues and subscriptions away when they are captured.
    consumes: bool = False
    # The name of the subscription that is made for each topic.
    subscription: str = SUBSCRIPTION
    # Of the messages: parquet, or delta where Spark has it.
    data_format: str = "parquet"
    # Run until it is told to stop, and not until all that is there is captured.
    is_continuous: bool = False
    # A batch ends after this time, or at one of these sizes.
    window_ms: int = WINDOW_MS
    max_messages: int = MAX_MESSAGES
    max_bytes: int = MAX_BYTES
    # An hour that is over and has at least so many files becomes one; 0: never.
    compact_files: int = COMPACT_FILES
    # Go on if messages that were to be captured are gone.
    accepts_loss: bool = False
    timeout_ms: int = TIMEOUT_MS

    def connection(self) -> SparkConnection:
        """Raises SecretError."""
        return SparkConnection(secret=Secret.parse("credential", self.credential))
