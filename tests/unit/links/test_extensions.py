"""Which extensions are offered; a strict bus offers none."""

from twinbus.encoding.layout import EXTENSIONS
from twinbus.limits import SEND_ID_WINDOW_MS, TRANSFER_HEADROOM_BYTES
from twinbus.links.extensions import EXTENSION_NAMES, Extensions


def test_everything_is_offered_unless_it_is_strict() -> None:
    offered = Extensions()
    assert (offered.offered, offered.names) == (EXTENSIONS, EXTENSION_NAMES)
    assert offered.headroom_bytes == TRANSFER_HEADROOM_BYTES
    assert offered.send_id_window_ms == SEND_ID_WINDOW_MS
    assert Extensions(send_id_window_ms=5).send_id_window_ms == 5


def test_strict_one_offers_nothing() -> None:
    strict = Extensions(is_strict=True)
    assert (strict.offered, strict.names, strict.headroom_bytes) == (0, (), 0)
