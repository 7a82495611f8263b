"""What this bus offers beyond Service Bus (D9).

Clients read the names in the properties of the AMQP open. A strict bus offers none of
it, so that what is sent means what it means to Service Bus.
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
)


@final
class Extensions:
    """What one bus offers."""

    def __init__(
        self, *, is_strict: bool = False, send_id_window_ms: int = SEND_ID_WINDOW_MS
    ) -> None:
        self.is_strict: bool = is_strict
        # Bits of a message's layout that are looked for when it arrives.
        self.offered: int = 0 if is_strict else EXTENSIONS
        # How long the id of a send is remembered.
        self.send_id_window_ms: int = send_id_window_ms
        # What messages between paired namespaces may have beyond the limits.
        self.headroom_bytes: int = 0 if is_strict else TRANSFER_HEADROOM_BYTES
        self.names: tuple[str, ...] = () if is_strict else EXTENSION_NAMES
