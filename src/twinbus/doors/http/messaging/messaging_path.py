"""What the path of a request means, if the request is about messages.

    POST          ENTITY/messages                 send
    POST, DELETE  ENTITY/messages/head            receive, locked or for good
    POST, PUT, DELETE
                  ENTITY/messages/NAME/TOKEN      renew, unlock or complete

NAME is the sequence number or the id of the message. The lock token alone decides: it
cannot be guessed, and names the message. Words are compared ignoring case.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final
from urllib.parse import unquote
from uuid import UUID

from twinbus.doors.http.request import HttpRequest

_MESSAGES: Final = "messages"
_HEAD: Final = "head"
_UUID_CHARACTERS: Final = 36


class Asked(Enum):
    """What a request wants; the value has its methods."""

    SEND = ("POST",)
    RECEIVE = ("POST", "DELETE")
    LOCKED = ("POST", "PUT", "DELETE")


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagingPath:
    """A path about messages of an entity."""

    # As the client wrote it, decoded.
    entity: str
    asked: Asked
    # Of a locked message; empty if it is not a token at all.
    lock_token: bytes = b""


def messaging_path(request: HttpRequest) -> MessagingPath | None:
    """None if the request is about something else."""
    if request.method not in Asked.LOCKED.value:
        return None
    # Split first: an encoded slash is a part of a name.
    parts = [unquote(part) for part in request.encoded_path.split("/")]
    found = _found([part.lower() for part in parts[-3:]])
    if found is None or request.method not in found.value:
        return None
    taken = {Asked.SEND: 1, Asked.RECEIVE: 2, Asked.LOCKED: 3}[found]
    entity = "/".join(parts[:-taken])
    if not entity:
        return None
    token = token_of(parts[-1]) if found is Asked.LOCKED else b""
    return MessagingPath(entity=entity, asked=found, lock_token=token)


def _found(last: list[str]) -> Asked | None:
    """By the last parts of the path, in lower case."""
    if last[-1] == _MESSAGES:
        return Asked.SEND
    if last[-2:] == [_MESSAGES, _HEAD]:
        return Asked.RECEIVE
    return Asked.LOCKED if len(last) == 3 and last[0] == _MESSAGES else None


def token_of(text: str) -> bytes:
    """The bytes of a lock token; empty if the text is none."""
    try:
        return UUID(text).bytes_le if len(text) == _UUID_CHARACTERS else b""
    except ValueError:
        return b""


def token_text(token: bytes) -> str:
    """A lock token as clients see it, over AMQP, too."""
    return str(uuid_of(token))


def uuid_of(token: bytes) -> UUID:
    return UUID(bytes_le=token)
