"""One question to a running server, for a command: trouble becomes a Failure.

It is asked over AMQP, which works with any server that can be reached at all.
"""

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any, Final

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.cli.namespace_client import ask_namespace
from twinbus.cli.server_address import ServerAddress
from twinbus.client.errors import ClientError, LinkClosed
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
"""For all of it; a server that is well answers in milliseconds."""

_CODES: Final[dict[type[ServiceBusError], int]] = {
    ArgumentError: exit_codes.USAGE,
    ArgumentOutOfRange: exit_codes.USAGE,
    AuthenticationFailed: exit_codes.UNAUTHORIZED,
    EntityAlreadyExists: exit_codes.EXISTS,
    MessagingEntityNotFound: exit_codes.NOT_FOUND,
    UnauthorizedAccess: exit_codes.UNAUTHORIZED,
}
_RULES: Final = "/rules/"


def ask(address: ServerAddress, operation: str, arguments: Mapping[str, str]) -> Any:
    """The server's answer. Raises Failure."""
    try:
        return asyncio.run(_ask(address, operation, arguments))
    except ServiceBusError as error:
        raise _refused(error) from None
    except ClientError as error:
        raise _cut_off(address, error) from None
    except ssl.SSLError as error:
        raise Failure(
            f"{address.text} can't be trusted: {error.reason or error}. See what "
            "'twinbus serve' says about TLS: SSL_CERT_FILE names the authority.",
            exit_codes.UNREACHABLE,
        ) from None
    except (OSError, TimeoutError) as error:
        raise _unreachable(address, error) from None


async def _ask(
    address: ServerAddress, operation: str, arguments: Mapping[str, str]
) -> Any:
    return await ask_namespace(
        address.host,
        address.port,
        operation,
        arguments,
        key_name=address.key_name,
        key=address.key,
        timeout_seconds=_PATIENCE_SECONDS,
        ssl=ssl.create_default_context() if address.is_tls else None,
    )


def _refused(error: ServiceBusError) -> Failure:
    """The server's own words, and what to do next."""
    kind = type(error)
    # The tracking id is for those who can read the server's log.
    text = error.text.partition(" TrackingId:")[0]
    code = _CODES.get(kind, exit_codes.FAILED)
    return Failure(f"{text} {_next_step(error)}", code)


def _next_step(error: ServiceBusError) -> str:
    if isinstance(error, UnauthorizedAccess):
        return "Use a key with the Manage right."
    if not isinstance(error, MessagingEntityNotFound):
        return ""
    subscription, _, rule = error.entity_path.lower().rpartition(_RULES)
    if subscription and rule:
        name = error.entity_path[: len(subscription)]
        return f"'twinbus entities show {name}' shows the rules that there are."
    return "'twinbus entities list' shows what there is."


def _cut_off(address: ServerAddress, error: ClientError) -> Failure:
    told = error.error
    if isinstance(error, LinkClosed) and told is not None:
        return _refused(from_condition(told.condition, told.description))
    if told is not None and told.condition == UnauthorizedAccess.condition:
        return Failure(
            f"{address.text} does not know the key '{address.key_name}', or not with "
            "this value: give its data folder with --data, or --connection-string.",
            exit_codes.UNAUTHORIZED,
        )
    return Failure(
        f"{address.text} ended the connection ({error}). Is it a twinbus server?",
        exit_codes.UNREACHABLE,
    )


def _unreachable(address: ServerAddress, error: OSError) -> Failure:
    if isinstance(error, ConnectionRefusedError):
        why = "start one with 'twinbus serve', or see --port and --connection-string"
    else:
        why = str(error) or "it took too long"
    return Failure(
        f"No server answers at {address.text}: {why}.", exit_codes.UNREACHABLE
    )
