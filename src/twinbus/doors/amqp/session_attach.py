"""Attach to a session: the attach is answered when the session is granted.

The session filter of the source has a session id, or null for the next session with
messages. A named session is in the fragment of its id. For the next one the attach
waits at all fragments, takes the first that is granted, and leaves the others.

The attach waits at most for the client's `com.microsoft:timeout`. A client that
detaches or disconnects waits no longer. The wait uses the machine's clock and not the
clock of messages: it is the client's timeout. The answer has the session id and the end
of the lock.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, final

from twinbus.amqp.link import Link
from twinbus.amqp.messaging import Source
from twinbus.amqp.types import Described
from twinbus.broker.fragment import Fragment
from twinbus.broker.fragment_settings import FragmentSettings
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
from twinbus.peers.session_candidate import SessionCandidate

if TYPE_CHECKING:
    from twinbus.doors.amqp.amqp_connection import AmqpConnection

FILTER: Final = "com.microsoft:session-filter"
_TIMEOUT: Final = "com.microsoft:timeout"
_LOCKED_UNTIL: Final = "com.microsoft:locked-until-utc"

_UNIX_EPOCH_TICKS: Final = 621_355_968_000_000_000
"""1970 in .NET's ticks: steps of 100 ns since the year 1."""

_TICKS_PER_MS: Final = 10_000


def names_session(link: Link) -> bool:
    """The attach has a session filter."""
    return isinstance(link.source, Source) and FILTER in (link.source.filter or {})


def asks_for_session(link: Link, settings: FragmentSettings) -> bool:
    """True if the attach is for a session. Raises NotAllowed if the entity has no
    sessions, or if it requires one and the attach has none."""
    path = settings.path
    asks = names_session(link)
    if asks and not settings.requires_session:
        raise NotAllowed(
            f"'{path}' does not require sessions; receive from it without one.",
            entity_path=path,
        )
    if settings.requires_session and not asks:
        raise NotAllowed(
            f"'{path}' requires sessions: it is not possible to receive from it "
            "without one. Accept a session, by its id or the next available.",
            entity_path=path,
        )
    return asks


@final
class FragmentWaiter(SessionWaiter):
    """Waits for a session of one fragment."""

    def __init__(
        self, attach: "SessionAttach", fragment: Fragment, session_id: str | None
    ) -> None:
        super().__init__(session_id)
        self._attach = attach
        self._fragment = fragment

    def wait(self) -> None:
        self._fragment.home.wait_for_session(self._fragment, self)

    def granted(self, session: HeldSession) -> None:
        self._attach.granted(self._fragment, session)

    def refused(self, error: ServiceBusError) -> None:
        self._attach.detach(error)

    def leave(self) -> None:
        if self._fragment.sessions is not None:
            self._fragment.sessions.leave(self)


class SessionAttach:
    """An attach that waits for a session."""

    def __init__(
        self,
        connection: "AmqpConnection",
        link: Link,
        fragments: Sequence[Fragment],
        what: str,
        peek_lock: bool,
        path: str,
    ) -> None:
        """`fragments` are those that may have the session; `what` describes the link in
        the operation log. Raises ArgumentError if the filter is not a valid session
        id."""
        self.session_id = session_id_of(link)
        # The path that the claim is for.
        self.path = path
        # Other brokers that may have a session.
        self._candidates: list[SessionCandidate] = []
        self._connection = connection
        self._link = link
        self._what = what
        self._peek_lock = peek_lock
        self._waiters = [
            FragmentWaiter(self, fragment, self.session_id) for fragment in fragments
        ]
        self._timer: asyncio.TimerHandle | None = None

    def wait(self) -> None:
        """Ask for the session."""
        loop = asyncio.get_running_loop()
        wait_ms = _wait_ms(self._link)
        self._timer = loop.call_later(wait_ms / 1000, self._give_up)
        for waiter in self._waiters:
            waiter.wait()
        for candidate in list(self._candidates):
            candidate.start()

    def ask_elsewhere(self, candidate: SessionCandidate) -> None:
        """A session of another broker will do, too."""
        self._candidates.append(candidate)

    def granted_elsewhere(self, winner: SessionCandidate) -> None:
        self._candidates.remove(winner)
        self.close()
        self._link.context = winner
        self._connection.replaced(self, winner)

    def refused_elsewhere(self, candidate: SessionCandidate) -> None:
        """It has none, or cannot be reached; the client's time runs on."""
        self._candidates.remove(candidate)

    def granted(self, fragment: Fragment, session: HeldSession) -> None:
        self.close()
        connection, link = self._connection, self._link
        actor = connection.introduce(fragment.home, self._what)
        receive_link = ReceiveLink(
            *(link, fragment, actor, self._peek_lock, connection.output),
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

    def _give_up(self) -> None:
        self.detach(OperationTimeout.accepting(self.session_id, entity_path=self.path))
        self._connection.output.flush_all()

    def detach(self, error: ServiceBusError) -> None:
        """Refuse the attach."""
        self.close()
        self._link.refuse(amqp_error(error))
        self._connection.output.mark()

    def close(self) -> None:
        """Stop waiting."""
        for waiter in self._waiters:
            waiter.leave()
        for candidate in self._candidates:
            candidate.leave()
        self._candidates.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def session_id_of(link: Link) -> str | None:
    """The id in the filter; None means the next session. Raises ArgumentError."""
    assert isinstance(link.source, Source)
    value = (link.source.filter or {}).get(FILTER)
    if isinstance(value, Described):
        # The standard requires described filters; of the SDKs only Go sends one.
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
    """Raises ArgumentError if the id is too long."""
    if len(session_id) > MESSAGE_ID_CHARACTERS:
        raise ArgumentError(
            f"The session id has {len(session_id)} characters; at most "
            f"{MESSAGE_ID_CHARACTERS} are allowed."
        )


def _wait_ms(link: Link) -> int:
    """How long the attach may wait. Some clients set it, in any integer type."""
    wait_ms = link.properties.get(_TIMEOUT)
    if isinstance(wait_ms, bool) or not isinstance(wait_ms, int):
        return SESSION_WAIT_MS
    return max(0, min(wait_ms, SESSION_WAIT_MS_MAX))


def _answered_source(link: Link, session_id: str) -> Source:
    """The source of the request with the id of the granted session.

    The filter keeps the form of the request, because Go's SDK sends a described filter
    and reads only a described one.
    """
    source = link.source
    assert isinstance(source, Source)
    filters = dict(source.filter or {})
    asked = filters[FILTER]
    answer: object = session_id
    if isinstance(asked, Described):
        answer = Described(asked.descriptor, session_id)
    return replace(source, filter={**filters, FILTER: answer})
