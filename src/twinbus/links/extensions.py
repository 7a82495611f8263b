"""Features of this bus that Service Bus does not have.

Clients find their names in the properties of the AMQP open. A strict bus has none of
them, so that every message means the same as in Service Bus.
"""

from typing import Final, final

from twinbus.encoding.layout import EXTENSIONS
from twinbus.limits import SEND_ID_WINDOW_MS, TRANSFER_HEADROOM_BYTES

EXTENSION_NAMES: Final = (
    "ping",
    "send-id",
    "restore-ledger",
    "transfer-headroom",
    "cancel-sent",
    "resubmit",
)


@final
class Extensions:
    """The features of one bus."""

    def __init__(
        self, *, is_strict: bool = False, send_id_window_ms: int = SEND_ID_WINDOW_MS
    ) -> None:
        self.is_strict: bool = is_strict
        # Layout bits that are set for incoming messages.
        self.offered: int = 0 if is_strict else EXTENSIONS
        # How long the ids of sends are remembered.
        self.send_id_window_ms: int = send_id_window_ms
        # Bytes that messages between paired namespaces may have above the limit.
        self.headroom_bytes: int = 0 if is_strict else TRANSFER_HEADROOM_BYTES
        self.names: tuple[str, ...] = () if is_strict else EXTENSION_NAMES
