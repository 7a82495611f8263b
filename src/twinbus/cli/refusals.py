"""Why a server is not reached, or refuses a key, in words that say what to do.

`where` is host and port. No text has a key; the name of a key is no secret.
"""

import errno
import re
import socket
import ssl
from typing import Final

_CLAIM: Final = re.compile(r"'(Send|Listen|Manage)' claim")
_REFUSED: Final = f"[Errno {errno.ECONNREFUSED}]"
_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")
_TRACKING: Final = " TrackingId:"


def not_trusted(where: str, error: ssl.SSLError) -> str:
    """Why TLS with a server has failed."""
    if error.reason in _NO_TLS:
        return (
            f"{where} speaks no TLS at this port: 'UseDevelopmentEmulator=true' in the "
            "connection string asks for plain TCP."
        )
    # Of a certificate, what is wrong with it.
    why = getattr(error, "verify_message", "") or error.reason or str(error)
    return (
        f"{where} can't be trusted: {why.rstrip('.')}. SSL_CERT_FILE names its "
        "authority, and --ca-file of 'twinbus context add' does for a context."
    )


def no_answer(where: str, error: BaseException) -> str:
    """Of an OSError or TimeoutError."""
    # A host name with two addresses gives an error of its own, with both inside.
    if isinstance(error, ConnectionRefusedError) or _REFUSED in str(error):
        why = "start one with 'twinbus serve', or see --port and --connection-string"
    elif isinstance(error, ConnectionResetError):
        why = (
            "it has cut the connection; does the connection string ask for TLS where "
            "there is none?"
        )
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
