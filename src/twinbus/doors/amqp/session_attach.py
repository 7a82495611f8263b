"""Attaching to a session: the attach is answered when there is one to be had.

The session filter of the source says which: a name, or null for the next one that has
messages. Until it is granted the attach is not answered, for as long as the client's
`com.microsoft:timeout` says; a client that detaches or is gone meanwhile waits no more.
Waiting goes by the machine's clock, not by the one of messages: it is the client's
patience. The answer names the session and the end of its lock.
"""

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from twinbus.amqp.link import Link
from twinbus.amqp.messaging import Source
from twinbus.amqp.types import Described
from twinbus.broker.fragment import Fragment
from twinbus.broker.held_session import HeldSession
from twinbus.broker.sessions import SessionWaiter
from twinbus.errors import (
    ArgumentError,
    NotAllowed,
    OperationTimeout,
    ServiceBusError,
)
from twinbus.limits import (
    MESSAGE_ID_CHARACTERS,
    SESSION_WAIT_MS,
    SESSION_WAIT_MS_MAX,
)
from twinbus.links.receive_link import ReceiveLink
from twinbus.links.refusal import amqp_error

if TYPE_CHECKING:
    from twinbus.doors.amqp.amqp_connection import AmqpConnection

FILTER: Final = "com.microsoft:session-filter"
_TIMEOUT: Final = "com.microsoft:timeout"
_LOCKED_UNTIL: Final = "com.microsoft:locked-until-utc"

_UNIX_EPOCH_TICKS: Final = 621_355_968_000_000_000
"""1970 as .NET counts: in steps of 100 ns from the year 1 on."""

_TICKS_PER_MS: Final = 10_000


def asks_for_session(link: Link, fragment: Fragment) -> bool:
    """The attach is for a session. Raises NotAllowed where that can't be, or where
    it must be and is not."""
    path = fragment.settings.path
    asks = isinstance(link.source, Source) and FILTER in (link.source.filter or {})
    if asks and not fragment.settings.requires_session:
        raise NotAllowed(
            f"'{path}' does not require sessions; receive from it without one.",
            entity_path=path,
        )
    if fragment.settings.requires_session and not asks:
        raise NotAllowed(
            f"'{path}' requires sessions: it is not possible to receive from it "
            "without one. Accept a session, by its id or the next available.",
            entity_path=path,
        )
    return asks


class SessionAttach(SessionWaiter):
    """An attach that waits for a session."""

    def __init__(
        self,
        connection: "AmqpConnection",
        link: Link,
        fragment: Fragment,
        actor: int,
        peek_lock: bool,
    ) -> None:
        """Raises ArgumentError if the filter names no session."""
        super().__init__(_session_id(link))
        # The path that the claim is for.
        self.path = fragment.settings.path
        self._connection = connection
        self._link = link
        self._fragment = fragment
        self._actor = actor
        self._peek_lock = peek_lock
        self._timer: asyncio.TimerHandle | None = None

    def wait(self) -> None:
        """Ask for the session."""
        loop = asyncio.get_running_loop()
        wait_ms = _wait_ms(self._link)
        self._timer = loop.call_later(wait_ms / 1000, self._give_up)
        self._fragment.home.wait_for_session(self._fragment, self)

    def granted(self, session: HeldSession) -> None:
        self._stop_timer()
        connection, link = self._connection, self._link
        receive_link = ReceiveLink(
            link,
            self._fragment,
            self._actor,
            self._peek_lock,
            connection.output,
            session,
        )
        link.context = receive_link
        connection.replaced(self, receive_link)
        ticks = session.locked_until * _TICKS_PER_MS + _UNIX_EPOCH_TICKS
        link.accept(
            source=_answered_source(link, session.session_id),
            properties={**link.properties, _LOCKED_UNTIL: ticks},
        )
        connection.output.mark()
        # Credit may have come before the answer.
        receive_link.offer_capacity()

    def refused(self, error: ServiceBusError) -> None:
        self.detach(error)

    def _give_up(self) -> None:
        self.detach(OperationTimeout.accepting(self.session_id, entity_path=self.path))
        self._connection.output.flush_all()

    def detach(self, error: ServiceBusError) -> None:
        """It can't be had; there is no link."""
        self.close()
        self._link.refuse(amqp_error(error))
        self._connection.output.mark()

    def close(self) -> None:
        """Nobody waits any more."""
        self._stop_timer()
        if self._fragment.sessions is not None:
            self._fragment.sessions.leave(self)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _session_id(link: Link) -> str | None:
    """Of the filter; None asks for the next. Raises ArgumentError."""
    assert isinstance(link.source, Source)
    value = (link.source.filter or {}).get(FILTER)
    if isinstance(value, Described):
        # What the standard wants filters to be, and of the SDKs only Go's does.
        value = value.value
    if value is None:
        return None
    if not isinstance(value, str):
        raise ArgumentError.about(
            FILTER, value=value, expected="the id of a session, or null for the next"
        )
    check_session_id(value)
    return str(value)


def check_session_id(session_id: str) -> None:
    """Raises ArgumentError if no session can have that id."""
    if len(session_id) > MESSAGE_ID_CHARACTERS:
        raise ArgumentError(
            f"The session id has {len(session_id)} characters; at most "
            f"{MESSAGE_ID_CHARACTERS} are allowed."
        )


def _wait_ms(link: Link) -> int:
    """How long the client lets its attach wait; some say it, in any integer type."""
    wait_ms = link.properties.get(_TIMEOUT)
    if isinstance(wait_ms, bool) or not isinstance(wait_ms, int):
        return SESSION_WAIT_MS
    return max(0, min(wait_ms, SESSION_WAIT_MS_MAX))


def _answered_source(link: Link, session_id: str) -> Source:
    """The source as it came, with the session that it is: clients look for both.

    In the form that was asked: each SDK knows its own, and Go's reads no answer to a
    described filter that is not described.
    """
    source = link.source
    assert isinstance(source, Source)
    filters = dict(source.filter or {})
    asked = filters[FILTER]
    answer: object = session_id
    if isinstance(asked, Described):
        answer = Described(asked.descriptor, session_id)
    return replace(source, filter={**filters, FILTER: answer})
