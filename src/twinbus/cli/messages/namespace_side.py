"""The namespace that a command talks to, over our own AMQP client.

Errors become a Failure that names the namespace and the entity. Server-busy is none:
the service asks its clients to wait ten seconds and to go on, and so does a command.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final, TypeVar

from twinbus.amqp.types import AmqpArray
from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure, complain
from twinbus.client.address import parse_address
from twinbus.client.connection import ClientConnection
from twinbus.client.connection_string import ConnectionStringError
from twinbus.client.errors import ClientError, ConnectionLost, RequestFailed
from twinbus.client.namespace_connection import NamespaceConnection
from twinbus.clock import SystemClock
from twinbus.errors import (
    AuthenticationFailed,
    ConnectionForced,
    MessagingEntityNotFound,
    ServerBusy,
    ServiceBusError,
    UnauthorizedAccess,
    from_condition,
)

T = TypeVar("T")

BUSY_SECONDS: Final = 10.0
"""What the service asks clients to wait for."""

_MOST_WAITS: Final = 60
"""After ten minutes somebody has to look."""

_EXTENSIONS: Final = "twinbus:extensions"

_CODES: Final = {
    UnauthorizedAccess.condition: exit_codes.UNAUTHORIZED,
    AuthenticationFailed.condition: exit_codes.UNAUTHORIZED,
    MessagingEntityNotFound.condition: exit_codes.NOT_FOUND,
    ConnectionForced.condition: exit_codes.UNREACHABLE,
}
_REFUSED: Final = (401, 403)
_FAILURES: Final = (ClientError, ServiceBusError, OSError, TimeoutError)


class NamespaceSide:
    """A namespace, connected to when it is first used."""

    def __init__(
        self, connection_string: str, busy_seconds: float = BUSY_SECONDS
    ) -> None:
        """Raises Failure."""
        try:
            address = parse_address(connection_string)
        except ConnectionStringError as error:
            raise Failure(str(error), exit_codes.USAGE) from None
        self.clock = SystemClock()
        self._connection = NamespaceConnection(address, self.clock)
        self._busy_seconds = busy_seconds

    @property
    def text(self) -> str:
        """Host and port, for messages."""
        return self._connection.address.text

    async def connection(self, path: str) -> ClientConnection:
        """With a right to this entity."""
        return await self._connection.get(path)

    async def offers(self, extension: str, path: str) -> bool:
        """Whether it is a twinbus that has this extension."""
        connection = await self.connection(path)
        offered = connection.peer_properties.get(_EXTENSIONS)
        return isinstance(offered, AmqpArray) and extension in offered.items

    async def patiently(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do this, and again after a while if the server is busy."""
        for _ in range(_MOST_WAITS):
            try:
                return await work()
            except (ClientError, ServiceBusError) as error:
                if condition_of(error) != ServerBusy.condition:
                    raise
            complain(
                f"{self.text} is busy; going on in {self._busy_seconds:g} seconds."
            )
            await asyncio.sleep(self._busy_seconds)
        return await work()

    async def close(self) -> None:
        await self._connection.close()


@asynccontextmanager
async def opened_side(connection_string: str) -> AsyncIterator[NamespaceSide]:
    """Raises Failure."""
    side = NamespaceSide(connection_string)
    try:
        yield side
    finally:
        await side.close()


def condition_of(error: BaseException) -> str:
    """The condition that the peer told; empty if it told none."""
    if isinstance(error, ServiceBusError):
        return error.condition
    told = error.error if isinstance(error, ClientError) else None
    return "" if told is None else str(told.condition)


@contextmanager
def told_as_failure(
    side: NamespaceSide, entity: str, so_far: str = ""
) -> Iterator[None]:
    """Turn errors of the client into a Failure. `so_far` says what was done before."""
    try:
        yield
    except _FAILURES as error:
        raise failure_of(error, side, entity, so_far) from None


def failure_of(
    error: BaseException, side: NamespaceSide, entity: str, so_far: str = ""
) -> Failure:
    """What a command ends with because of this error."""
    done = f" {so_far}" if so_far else ""
    condition = condition_of(error)
    if condition == MessagingEntityNotFound.condition:
        return Failure(
            f"{side.text} has no entity '{entity}': 'twinbus entities list' shows "
            f"those that exist.{done}",
            exit_codes.NOT_FOUND,
        )
    if isinstance(error, RequestFailed) and error.status in _REFUSED:
        return Failure(
            f"{side.text} refuses the key for '{entity}': {error.description}{done}",
            exit_codes.UNAUTHORIZED,
        )
    if condition:
        code = _CODES.get(condition, exit_codes.FAILED)
        return Failure(f"'{entity}': {_text(error)}{done}", code)
    if isinstance(error, ssl.SSLError):
        return Failure(
            f"{side.text} can't be trusted: {error.reason or error}. SSL_CERT_FILE "
            f"names the authority.{done}",
            exit_codes.UNREACHABLE,
        )
    if isinstance(error, OSError | ConnectionLost | TimeoutError):
        why = str(error) or "it took too long"
        return Failure(
            f"{side.text} does not answer: {why}.{done}", exit_codes.UNREACHABLE
        )
    return Failure(f"'{entity}': {error}.{done}", exit_codes.FAILED)


def _text(error: BaseException) -> str:
    """The peer's own text, without the tracking id."""
    if isinstance(error, ServiceBusError):
        text = error.text
    else:
        assert isinstance(error, ClientError) and error.error is not None
        told = error.error
        text = from_condition(told.condition, told.description).text
    return text.partition(" TrackingId:")[0]
