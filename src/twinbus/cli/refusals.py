"""Why a server is not reached, or refuses a key, in words that say what to do.

`where` is host and port. No text has a key; the name of a key is no secret.
"""

import errno
import re
import socket
from typing import Final

_CLAIM: Final = re.compile(r"'(Send|Listen|Manage)' claim")
_REFUSED: Final = f"[Errno {errno.ECONNREFUSED}]"
_TRACKING: Final = " TrackingId:"


def no_answer(where: str, error: BaseException) -> str:
    """Of an OSError or TimeoutError."""
    # A host name with two addresses gives an error of its own, with both inside.
    if isinstance(error, ConnectionRefusedError) or _REFUSED in str(error):
        why = "start one with 'twinbus serve', or see --port and --connection-string"
    elif isinstance(error, socket.gaierror):
        why = "there is no host of that name; see --connection-string"
    else:
        why = str(error) or "it took too long"
    return f"No server answers at {where}: {why}."


def lacking_right(text: str, key_name: str, entity: str) -> str:
    """The refusal of a server, as one that names the key and the right that it lacks;
    the text itself if it is about something else. No entity: the namespace."""
    found = _CLAIM.search(text)
    if found is None or not key_name:
        return untracked(text)
    right = found[1]
    what = f"'{entity}'" if entity else "the namespace"
    return (
        f"The key '{key_name}' lacks the {right} right on {what}: use one with it. "
        "'twinbus keys list' shows who has which."
    )


def untracked(text: str) -> str:
    """Without the id that helps only those who can read the server's log."""
    return text.partition(_TRACKING)[0]
