"""One request of a command to a running server; errors become a Failure.

The request is sent over AMQP, which every server speaks at every port.
"""

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any, Final

from twinbus.amqp.sasl import plain
from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.cli.refusals import lacking_right, no_answer, not_trusted, untracked
from twinbus.cli.similar_paths import meant_instead
from twinbus.client.connection import ClientConnection, connect
from twinbus.client.connection_string import ConnectionString
from twinbus.client.errors import ClientError, LinkClosed
from twinbus.client.management import ask_namespace
from twinbus.errors import (
    ArgumentError,
    ArgumentOutOfRange,
    AuthenticationFailed,
    EntityAlreadyExists,
    MessagingEntityNotFound,
    ServiceBusError,
    UnauthorizedAccess,
    from_condition,
)

_PATIENCE_SECONDS: Final = 30.0
"""For the whole request; a healthy server answers in milliseconds."""

_CODES: Final[dict[type[ServiceBusError], int]] = {
    ArgumentError: exit_codes.USAGE,
    ArgumentOutOfRange: exit_codes.USAGE,
    AuthenticationFailed: exit_codes.UNAUTHORIZED,
    EntityAlreadyExists: exit_codes.EXISTS,
    MessagingEntityNotFound: exit_codes.NOT_FOUND,
    UnauthorizedAccess: exit_codes.UNAUTHORIZED,
}
_RULES: Final = "/rules/"
_RULE: Final = "authorization rule"


def ask(
    server: ConnectionString,
    operation: str,
    arguments: Mapping[str, str],
    *,
    patience_seconds: float = _PATIENCE_SECONDS,
) -> Any:
    """The server's answer. Raises Failure."""
    try:
        return asyncio.run(_ask(server, operation, arguments, patience_seconds))
    except ServiceBusError as error:
        raise _refused(server, error) from None
    except ClientError as error:
        raise _cut_off(server, error) from None
    except ssl.SSLError as error:
        text = not_trusted(server.address, error)
        raise Failure(text, exit_codes.UNREACHABLE) from None
    except (OSError, TimeoutError) as error:
        raise _unreachable(server, error) from None


async def _ask(
    server: ConnectionString,
    operation: str,
    arguments: Mapping[str, str],
    patience_seconds: float,
) -> Any:
    connection = await connect(
        server.host,
        server.port,
        ssl=ssl.create_default_context() if server.is_tls else None,
        sasl=plain(server.key_name, server.key),
        timeout_seconds=patience_seconds,
    )
    async with connection:
        try:
            return await ask_namespace(
                connection, operation, arguments, timeout_seconds=patience_seconds
            )
        except MessagingEntityNotFound as error:
            hint = await _suggestion(connection, error.entity_path)
            error.text = untracked(error.text) + hint
            raise


async def _suggestion(connection: ClientConnection, path: str) -> str:
    """The entity that was meant, as a question behind a text."""
    try:
        found = await ask_namespace(connection, "list-entities", {})
    except (ServiceBusError, ClientError, TimeoutError):
        return ""
    question = meant_instead(path, (one["path"] for one in found))
    return f" {question}" if question else ""


def _refused(server: ConnectionString, error: ServiceBusError) -> Failure:
    """The server's own text, and what to do next."""
    code = _CODES.get(type(error), exit_codes.FAILED)
    if isinstance(error, UnauthorizedAccess):
        return Failure(lacking_right(error.text, server.key_name, ""), code)
    return Failure(f"{untracked(error.text)} {_next_step(error)}", code)


def _next_step(error: ServiceBusError) -> str:
    if not isinstance(error, MessagingEntityNotFound):
        return ""
    if _RULE in error.text:
        return "'twinbus keys list' shows the rules that exist; see --entity, too."
    subscription, _, rule = error.entity_path.lower().rpartition(_RULES)
    if subscription and rule:
        name = error.entity_path[: len(subscription)]
        return f"'twinbus entities show {name}' shows the rules that exist."
    return "'twinbus entities list' shows the entities that exist."


def _cut_off(server: ConnectionString, error: ClientError) -> Failure:
    told = error.error
    if isinstance(error, LinkClosed) and told is not None:
        return _refused(server, from_condition(told.condition, told.description))
    if told is not None and told.condition == UnauthorizedAccess.condition:
        return Failure(
            f"{server.address} does not know the key '{server.key_name}', or not with "
            "this value: give its data folder with --data, or --connection-string.",
            exit_codes.UNAUTHORIZED,
        )
    return Failure(
        f"{server.address} ended the connection ({error}). Is it a twinbus server?",
        exit_codes.UNREACHABLE,
    )


def _unreachable(server: ConnectionString, error: OSError) -> Failure:
    return Failure(no_answer(server.address, error), exit_codes.UNREACHABLE)
