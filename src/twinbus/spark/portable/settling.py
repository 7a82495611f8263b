"""Removes messages that were deferred and processed.

One request receives and deletes many deferred messages by number. Nothing is lost: this
is called only for messages that are processed. A request removes all of its numbers or
none. If one is missing, a peek finds those that exist; so messages that were settled
before, by a query that was killed meanwhile, cost a single peek.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from azure.servicebus import ServiceBusReceiver

from twinbus.sdk_internals import blocking_links
from twinbus.spark.portable.deferred_offset import DeferredPart
from twinbus.spark.portable.delivered import Delivered
from twinbus.spark.portable.errors import EntityMissing, NotDeferred, SessionTaken
from twinbus.spark.portable.namespace import (
    PortableNamespace,
    close_quietly,
)
from twinbus.spark.portable.number_ranges import NumberRanges
from twinbus.spark.portable.peeking import deferred_among
from twinbus.spark.portable.session_threads import with_sessions

_log = logging.getLogger(__name__)

_CHUNK: Final = 250
_CHUNK_BYTES: Final = 4 << 20
"""The answer has the messages in it."""

_SESSION_WAIT_SECONDS: Final = 10.0
_ATTEMPT_SECONDS: Final = 60.0
_RECEIVE_AND_DELETE: Final = 0
_FRAGMENT_BITS: Final = 48

_OPERATION: Final = "receive-by-sequence-number"

_Remove = Callable[[Sequence[int]], object]


def settle(
    namespace: PortableNamespace,
    path: str,
    part: DeferredPart,
    mark: str | None,
    *,
    looks_first: bool,
) -> None:
    """Remove these messages, as far as they are there. Raises PortableError.

    `looks_first` is for a batch that another process read: if the entity was made again
    since, other messages have these numbers, and they do not carry the mark. Without a
    mark to compare, all are taken for ours.
    """
    settling = _Settling(namespace, path, part, mark)
    try:
        if part.has_sessions:
            settling.by_session()
            return
        if looks_first:
            part = replace(part, numbers=settling.numbers_there())
            settling = replace(settling, part=part)
        settling.remove_all(
            lambda numbers: namespace.ask(path, _OPERATION, _removal(numbers))
        )
    except EntityMissing as error:
        # The entity is gone with all its messages, and those were processed.
        _log.warning("nothing is left to settle: %s", error)


@dataclass(frozen=True, slots=True)
class _Settling:
    """Messages of one entity that are to be removed."""

    namespace: PortableNamespace
    path: str
    part: DeferredPart
    mark: str | None

    def _there(self) -> Iterator[Delivered]:
        for message in deferred_among(self.namespace, self.path, self.part.numbers):
            if self.mark is None or message.mark == self.mark:
                yield message

    def numbers_there(self) -> NumberRanges:
        return NumberRanges.of(message.number for message in self._there())

    def remove_all(self, remove: _Remove) -> None:
        size = _chunk_size(self.part)
        try:
            for chunk in _chunks(self.part.numbers, size):
                remove(chunk)
        except NotDeferred:
            for chunk in _chunks(self.numbers_there(), size):
                _remove_by_halves(chunk, remove)

    def by_session(self) -> None:
        """Remove deferred messages of sessions: for that, we have to hold each."""
        part = self.part
        sessions: dict[str, list[int]] = {}
        for message in self._there():
            sessions.setdefault(message.session_id or "", []).append(message.number)

        def settle_one(session_id: str) -> None:
            numbers = NumberRanges.of(sessions[session_id])
            size_bytes = part.size_bytes * len(numbers) // len(part.numbers)
            held = replace(part, numbers=numbers, size_bytes=size_bytes)
            with self.namespace.another() as own:
                replace(self, namespace=own, part=held).one_session(session_id)

        with_sessions(settle_one, list(sessions))

    def one_session(self, session_id: str) -> None:
        receiver = self._accepted(session_id)

        def remove(numbers: Sequence[int]) -> object:
            body = {**_removal(numbers), "session-id": session_id}
            return self.namespace.patiently(
                self.path,
                lambda: blocking_links.ask(
                    receiver, _OPERATION, body, _ATTEMPT_SECONDS
                ),
            )

        try:
            self.remove_all(remove)
        finally:
            close_quietly(receiver)

    def _accepted(self, session_id: str) -> ServiceBusReceiver:
        """Hold the session, as soon as others let go of it."""
        patience = self.namespace.patience()
        while True:
            try:
                return self.namespace.session(
                    self.path, session_id, _SESSION_WAIT_SECONDS
                )
            except SessionTaken:
                if not patience.wait():
                    raise


def _removal(numbers: Sequence[int]) -> dict[str, Any]:
    return {
        "sequence-numbers": blocking_links.longs(numbers),
        "receiver-settle-mode": blocking_links.unsigned(_RECEIVE_AND_DELETE),
    }


def _remove_by_halves(numbers: Sequence[int], remove: _Remove) -> None:
    try:
        remove(numbers)
    except NotDeferred as error:
        if len(numbers) == 1:
            _log.warning("a message stays, since somebody else has it: %s", error)
            return
        half = len(numbers) // 2
        _remove_by_halves(numbers[:half], remove)
        _remove_by_halves(numbers[half:], remove)


def _chunk_size(part: DeferredPart) -> int:
    mean_bytes = max(part.size_bytes // max(len(part.numbers), 1), 1)
    return max(min(_CHUNK, _CHUNK_BYTES // mean_bytes), 1)


def _chunks(numbers: NumberRanges, size: int) -> Iterator[list[int]]:
    """Split the numbers into requests; a request needs numbers of one fragment."""
    by_fragment: dict[int, list[tuple[int, int]]] = {}
    for first, last in numbers.pairs():
        by_fragment.setdefault(first >> _FRAGMENT_BITS, []).append((first, last))
    for pairs in by_fragment.values():
        left = iter(NumberRanges(pairs))
        while chunk := list(islice(left, size)):
            yield chunk
