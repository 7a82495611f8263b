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
from twinbus.cli.refusals import lacking_right, no_answer, not_trusted, untracked
from twinbus.cli.similar_paths import meant_instead
from twinbus.client.address import parse_address
from twinbus.client.connection import ClientConnection
from twinbus.client.connection_string import (
    ConnectionStringError,
    parse_connection_string,
)
from twinbus.client.errors import ClientError, ConnectionLost, RequestFailed
from twinbus.client.management import ask_namespace
from twinbus.client.namespace_connection import NamespaceConnection
from twinbus.clock import SystemClock
from twinbus.errors import (
    AuthenticationFailed,
    ConnectionForced,
    MessageNotFound,
    MessagingEntityNotFound,
    NotAllowed,
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

_SUGGESTION_SECONDS: Final = 2.0
"""How long a command that fails may look for the name that was meant."""

_EXTENSIONS: Final = "twinbus:extensions"

_CODES: Final = {
    UnauthorizedAccess.condition: exit_codes.UNAUTHORIZED,
    AuthenticationFailed.condition: exit_codes.UNAUTHORIZED,
    MessageNotFound.condition: exit_codes.NOT_FOUND,
    ConnectionForced.condition: exit_codes.UNREACHABLE,
}
_REFUSED: Final = (401, 403)
_NEEDS_SESSION: Final = " requires sessions"
_CUT: Final = ("", ConnectionForced.condition)
"""What a connection ends with that was open, and not because of us."""

_FAILURES: Final = (ClientError, ServiceBusError, OSError, TimeoutError)


class NoSuchEntity(Failure):
    """The namespace has no entity of this path."""

    def __init__(self, text: str, entity: str) -> None:
        super().__init__(text, exit_codes.NOT_FOUND)
        self.entity = entity


class NamespaceSide:
    """A namespace, connected to when it is first used."""

    def __init__(
        self, connection_string: str, busy_seconds: float = BUSY_SECONDS
    ) -> None:
        """Raises Failure."""
        try:
            parsed = parse_connection_string(connection_string)
            address = parse_address(connection_string)
        except ConnectionStringError as error:
            raise Failure(str(error), exit_codes.USAGE) from None
        # Empty: a signature.
        self.key_name = parsed.key_name
        # The only entity that the key is for; empty: the whole namespace.
        self.entity_path = parsed.entity_path
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

    async def meant_instead(self, entity: str) -> str:
        """The entity that was meant, as a question; empty if none is known."""
        return meant_instead(entity, await self._known())

    async def topic_hint(self, path: str) -> str:
        """Where the messages of a topic are; empty if it is none, or not known."""
        known = await self._known()
        if not any(
            kind == "topic" and each.lower() == path.lower()
            for each, kind in known.items()
        ):
            return ""
        start = f"{path}/subscriptions/".lower()
        own = [each for each in known if each.lower().startswith(start)]
        example = f", such as '{own[0]}'" if own else "; it has none"
        return f"'{path}' is a topic: its messages are in its subscriptions{example}."

    async def _known(self) -> dict[str, str]:
        """Kinds of all entities by path; none if the key may not ask, or the namespace
        cannot answer."""
        try:
            async with asyncio.timeout(_SUGGESTION_SECONDS):
                connection = await self.connection("")
                found = await ask_namespace(connection, "list-entities", {})
        except _FAILURES:
            return {}
        return {one["path"]: one["kind"] for one in found}

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
    except NoSuchEntity as failure:
        hint = await side.meant_instead(failure.entity)
        raise Failure(f"{failure} {hint}", failure.exit_code) from None
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
        return NoSuchEntity(
            f"{side.text} has no entity '{entity}': 'twinbus entities list' shows "
            f"those that exist.{done}",
            entity,
        )
    if isinstance(error, RequestFailed) and error.status in _REFUSED:
        return Failure(
            f"{_refused(error, side, entity)}{done}", exit_codes.UNAUTHORIZED
        )
    if isinstance(error, ConnectionLost) and condition in _CUT:
        why = _text(error).rstrip(".")
        return Failure(
            f"{side.text} has ended the connection: {why}.{done}",
            exit_codes.UNREACHABLE,
        )
    if condition:
        text = lacking_right(_text(error), side.key_name, entity)
        text += _flag_hint(condition, text)
        if f"'{entity}'" not in text:
            text = f"'{entity}': {text}"
        return Failure(f"{text}{done}", _CODES.get(condition, exit_codes.FAILED))
    if isinstance(error, ssl.SSLError):
        return Failure(f"{not_trusted(side.text, error)}{done}", exit_codes.UNREACHABLE)
    if isinstance(error, OSError | ConnectionLost | TimeoutError):
        return Failure(f"{no_answer(side.text, error)}{done}", exit_codes.UNREACHABLE)
    return Failure(f"'{entity}': {error}.{done}", exit_codes.FAILED)


def _flag_hint(condition: str, text: str) -> str:
    """The flag for what the server asks for in the words of the SDKs."""
    if condition != NotAllowed.condition or _NEEDS_SESSION not in text:
        return ""
    if "receive from it" in text:
        return " The flags are --session and --next-session."
    return " The flag is --session-id."


def _refused(error: RequestFailed, side: NamespaceSide, entity: str) -> str:
    """A token was not taken."""
    only = side.entity_path
    if only and only.lower() != entity.lower():
        return f"The connection string is for '{only}' alone, by its EntityPath."
    key = f"the key '{side.key_name}'" if side.key_name else "the signature"
    return f"{side.text} refuses {key} for '{entity}': {untracked(error.description)}"


def _text(error: BaseException) -> str:
    """The peer's own text."""
    if isinstance(error, ServiceBusError):
        text = error.text
    else:
        assert isinstance(error, ClientError)
        if error.error is None:
            return str(error)
        told = error.error
        text = from_condition(told.condition, told.description).text
    return untracked(text)
