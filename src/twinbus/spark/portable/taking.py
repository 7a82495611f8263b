"""Receives messages and defers them: then other receivers do not get them, and they can
be read by number.

Messages are received with locks and deferred by one request, which names the lock
tokens and writes the stream's mark. If the request fails, it is unknown which messages
were deferred. Then they are peeked at, and those with the mark are ours.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from azure.servicebus import ServiceBusReceivedMessage, ServiceBusReceiver
from azure.servicebus.amqp import AmqpMessageBodyType

from twinbus.sdk_internals import blocking_links
from twinbus.spark.portable.allowance import Allowance
from twinbus.spark.portable.delivered import MARK
from twinbus.spark.portable.errors import LockLost, PortableError, SessionTaken
from twinbus.spark.portable.namespace import (
    FAILURES,
    PortableNamespace,
    close_quietly,
    known_refusal,
)
from twinbus.spark.portable.number_ranges import NumberRanges
from twinbus.spark.portable.peeking import deferred_among

_log = logging.getLogger(__name__)

_FIRST_WAIT_SECONDS: Final = 5.0
"""For the first message, if one was seen. If none comes, others hold the locks."""

_NEXT_WAIT_SECONDS: Final = 0.5
"""For further messages; later ones are for the next batch."""

_SESSION_WAIT_SECONDS: Final = 1.0
_ATTEMPT_SECONDS: Final = 60.0

_HEADER_BYTES: Final = 256
"""The estimated size of a message without its body."""

_Ask = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Locked:
    """A message that was received."""

    number: int
    token: Any
    size_bytes: int


class Taker:
    """Takes messages of one entity for one stream. Not shared between threads."""

    def __init__(
        self,
        namespace: PortableNamespace,
        path: str,
        mark: str,
        allowance: Allowance,
        sharers: int = 1,
    ) -> None:
        """`sharers` is how many use the allowance at the same time."""
        self._namespace = namespace
        self._path = path
        self._mark = mark
        self._allowance = allowance
        self._sharers = sharers
        # The messages that were deferred.
        self.numbers: list[int] = []
        self.size_bytes = 0

    def take(self) -> None:
        """Take messages, within the allowance. Raises PortableError; SessionsRequired
        if the entity gives out messages by session only."""
        self._patiently(
            lambda: self._namespace.receiver(self._path),
            # A lock can be used over any connection, also if its link is gone.
            lambda receiver: lambda body: self._disposition_without_link(body),
        )

    def take_session(self, session_id: str | None) -> None:
        """Take messages of a session; without an id, of the next one that is free."""

        def ask_on(receiver: ServiceBusReceiver) -> _Ask:
            held = str(receiver.session.session_id)

            def ask(body: dict[str, Any]) -> None:
                body["session-id"] = held
                self._disposition_on(receiver, body)

            return ask

        try:
            self._patiently(
                lambda: self._namespace.session(
                    self._path, session_id, _SESSION_WAIT_SECONDS
                ),
                ask_on,
            )
        except (SessionTaken, LockLost) as error:
            _log.info("a session is left to others: %s", error)

    def _patiently(
        self,
        opened: Callable[[], ServiceBusReceiver],
        ask_on: Callable[[ServiceBusReceiver], _Ask],
    ) -> None:
        """Take messages until none is left. After a failure, try again, unless some
        were taken: these are a batch."""
        patience = self._namespace.patience()
        while True:
            receiver = opened()
            try:
                self._take_from(receiver, ask_on(receiver))
                return
            except FAILURES as error:
                self._namespace.wait_after(self._path, error, patience)
                if self.numbers:
                    return
            finally:
                close_quietly(receiver)

    def _take_from(self, receiver: ServiceBusReceiver, ask: _Ask) -> None:
        wait_seconds = _FIRST_WAIT_SECONDS
        while count := self._allowance.reserve(self._sharers):
            known_count, known_bytes = len(self.numbers), self.size_bytes
            try:
                received = receiver.receive_messages(count, wait_seconds)
                if not received:
                    return
                self._defer([_locked(message) for message in received], ask)
            finally:
                self._allowance.spend(
                    count,
                    len(self.numbers) - known_count,
                    self.size_bytes - known_bytes,
                )
            wait_seconds = _NEXT_WAIT_SECONDS

    # --- deferring ------------------------------------------------------------

    def _defer(self, messages: Sequence[Locked], ask: _Ask) -> None:
        doubtful: list[Locked] = []
        try:
            self._defer_all(messages, ask, doubtful)
        except (PortableError, *FAILURES):
            known = set(self.numbers)
            doubtful = [one for one in messages if one.number not in known]
            raise
        finally:
            if doubtful:
                self._add_marked(doubtful)

    def _defer_all(
        self, messages: Sequence[Locked], ask: _Ask, lost: list[Locked]
    ) -> None:
        """Defer all of them by one request. If a lock has ended, try each half."""
        try:
            ask(
                {
                    "disposition-status": "defered",
                    "lock-tokens": blocking_links.uuids(one.token for one in messages),
                    "properties-to-modify": {MARK: self._mark},
                }
            )
        except LockLost as error:
            if len(messages) == 1:
                # Another receiver has the message, or will get it; or it was deferred
                # by a request whose answer was lost.
                _log.info("a lock was lost: %s", error)
                lost += messages
                return
            half = len(messages) // 2
            self._defer_all(messages[:half], ask, lost)
            self._defer_all(messages[half:], ask, lost)
        else:
            self._add(messages)

    def _disposition_without_link(self, body: dict[str, Any]) -> None:
        self._namespace.ask(self._path, "update-disposition", body)

    def _disposition_on(self, receiver: ServiceBusReceiver, body: Any) -> None:
        try:
            blocking_links.ask(receiver, "update-disposition", body, _ATTEMPT_SECONDS)
        except FAILURES as error:
            known = known_refusal(self._path, error)
            raise known or error from None

    def _add(self, messages: Sequence[Locked]) -> None:
        self.numbers += [one.number for one in messages]
        self.size_bytes += sum(one.size_bytes for one in messages)

    def _add_marked(self, messages: Sequence[Locked]) -> None:
        numbers = NumberRanges.of(one.number for one in messages)
        marked = {
            found.number
            for found in deferred_among(self._namespace, self._path, numbers)
            if found.mark == self._mark
        }
        self._add([one for one in messages if one.number in marked])


def _locked(message: ServiceBusReceivedMessage) -> Locked:
    number = message.sequence_number
    assert number is not None
    return Locked(number, message.lock_token, _HEADER_BYTES + _body_bytes(message))


def _body_bytes(message: ServiceBusReceivedMessage) -> int:
    """The bytes of the large parts of a message; a guess if the body is not data."""
    if message.body_type is AmqpMessageBodyType.DATA:
        return sum(len(part) for part in message.body)
    return len(str(message.body))
