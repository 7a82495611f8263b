"""Messages with annotations of twinbus, and pings."""

from typing import Any

from .codec import Symbol
from .message import data_message

SEND_ID = "x-opt-twinbus-send-id"
RESTORED_FROM = "x-opt-twinbus-restored-from"
PING = Symbol("application/vnd.ms-servicebus-ping")


def ping(**properties: Any) -> bytes:
    """A ping as a paired client sends it: nothing in it but its content type."""
    return data_message(b"", properties={"content_type": PING, **properties})


def identified(text: str, send_id: Any, **sections: Any) -> bytes:
    """A message with a send id."""
    more = sections.pop("annotations", {})
    return data_message(text, annotations={SEND_ID: send_id, **more}, **sections)


def restored(text: str, origin: Any, **annotations: Any) -> bytes:
    """A message that says what it was restored from."""
    return data_message(text, annotations={RESTORED_FROM: origin, **annotations})
