"""Requests of a command to what only twinbus servers have, over HTTP.

`flags` are those of a command that takes `entity_flags.SERVER`. Every port of a server
speaks HTTP.
"""

import http.client
import json
import ssl
import sys
from collections.abc import Mapping
from typing import Any, Final

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.cli.refusals import lacking_right, no_answer, not_trusted
from twinbus.cli.server_choice import chosen_server
from twinbus.client.connection_string import ConnectionString
from twinbus.client.credentials import token_source
from twinbus.clock import SystemClock

_PATIENCE_SECONDS: Final = 30.0

_CODES: Final = {
    400: exit_codes.USAGE,
    401: exit_codes.UNAUTHORIZED,
    404: exit_codes.NOT_FOUND,
    409: exit_codes.EXISTS,
}


def ask_own(
    flags: Mapping[str, Any], method: str, path: str, content: object = None
) -> Any:
    """The answer of the server that the flags name. Raises Failure."""
    server = chosen_server(flags)
    status, body = _reached(server, method, path, content)
    return _understood(server, status, body)


def _reached(
    server: ConnectionString, method: str, path: str, content: object
) -> tuple[int, bytes]:
    """Status and body. Raises Failure."""
    try:
        return _exchange(server, method, path, content)
    except ssl.SSLError as error:
        text = not_trusted(server.address, error)
        raise Failure(text, exit_codes.UNREACHABLE) from None
    except (OSError, http.client.HTTPException) as error:
        text = no_answer(server.address, error)
        raise Failure(text, exit_codes.UNREACHABLE) from None


def ask_text(flags: Mapping[str, Any], path: str) -> str:
    """A text that the server answers with, such as its metrics. Raises Failure."""
    server = chosen_server(flags)
    status, body = _reached(server, "GET", path, None)
    if status != 200:
        raise Failure(
            f"{server.address} answers {path} with status {status}.",
            _CODES.get(status, exit_codes.FAILED),
        )
    return body.decode()


def warn_of_missing(answer: Mapping[str, Any]) -> None:
    """Of several brokers these have not done what was asked."""
    for one in answer.get("missing", ()):
        print(f"Not at broker {one['broker']}: {one['why']}", file=sys.stderr)


def _exchange(
    server: ConnectionString, method: str, path: str, content: object
) -> tuple[int, bytes]:
    if server.is_tls:
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            server.host, server.port, timeout=_PATIENCE_SECONDS
        )
    else:
        connection = http.client.HTTPConnection(
            server.host, server.port, timeout=_PATIENCE_SECONDS
        )
    token = token_source(server, SystemClock()).token().text
    body = None if content is None else json.dumps(content).encode()
    try:
        connection.request(method, path, body, {"authorization": token})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def _understood(server: ConnectionString, status: int, body: bytes) -> Any:
    """Raises Failure."""
    try:
        content = json.loads(body)
        error = content.get("error")
    except (ValueError, AttributeError):
        raise Failure(
            f"{server.address} answers with status {status}, and not as a twinbus "
            "server of this version does.",
            exit_codes.FAILED,
        ) from None
    if error is not None:
        code = _CODES.get(status, exit_codes.FAILED)
        text = lacking_right(str(error["message"]), server.key_name, "")
        raise Failure(text, code)
    return content
