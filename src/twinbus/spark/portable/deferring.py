"""A stream over any namespace that defers messages first, and settles them at the end.

    advance(start)   the messages in `start` are durably processed: remove them, then
                     receive the next messages, defer them, and return their numbers
    partitions(start, end)  the messages in `end`, to be peeked at by number

Other receivers do not get deferred messages. They need no lock, and Spark can read them
by number as often as it likes, also after a crash. Each gets a mark: the id of the
stream. The id is in Spark's log before anything is deferred, because the first batch of
a query is empty and has only the id. So a stream that was killed finds the messages
that it deferred and did not write into Spark's log.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import uuid4

from pyspark.sql.datasource import InputPartition

from twinbus.spark.data_loss import report_loss
from twinbus.spark.option_reader import OptionError
from twinbus.spark.patience import RetryPatience
from twinbus.spark.portable.allowance import Allowance
from twinbus.spark.portable.browsing import named_entities
from twinbus.spark.portable.deferred_offset import (
    DeferredOffset,
    DeferredPart,
    read_deferred_offset,
)
from twinbus.spark.portable.deferred_splits import splits
from twinbus.spark.portable.errors import EntityMissing, SessionsRequired
from twinbus.spark.portable.namespace import PortableNamespace, close_quietly
from twinbus.spark.portable.number_ranges import NumberRanges
from twinbus.spark.portable.peeked_ranges import DeferredPartition
from twinbus.spark.portable.peeking import last_number, peek
from twinbus.spark.portable.session_threads import with_sessions
from twinbus.spark.portable.settling import settle
from twinbus.spark.portable.shares import Shares
from twinbus.spark.portable.taking import Taker
from twinbus.spark.portable.watching import Lookout, OrphanSearch, Sighting
from twinbus.spark.read_options import ReadOptions
from twinbus.spark.resting import AMQP_SECONDS, rest

_log = logging.getLogger(__name__)

_HELD_SECONDS: Final = 60.0
_NO_BATCH: Final = -1
_NOTHING: Final = DeferredPart(numbers=NumberRanges(), size_bytes=0, has_sessions=False)


class DeferringStream:
    """`StreamEngine` of the settlement defer: the driver's part of one query."""

    def __init__(self, options: ReadOptions) -> None:
        _check_options(options)
        self._options = options
        self._paths = named_entities(options)
        self._namespace = PortableNamespace(options.connection, options.patience_ms)
        self._lookouts = {path: Lookout(self._namespace, path) for path in self._paths}
        # By path, from the first batch on: each entity is searched once.
        self._searches: dict[str, OrphanSearch] = {}
        # By path, as far as it is known.
        self._has_sessions: dict[str, bool] = {}
        # The last batch that was settled by this process.
        self._settled_batch = _NO_BATCH
        # For a query that reads what is there and ends: the last number, by path.
        self._targets: dict[str, int] | None = None
        # The last number that the batch may have, by path; None: its limits are enough.
        self._lasts: dict[str, int] | None = None

    # --- what Spark asks ------------------------------------------------------

    def initial(self) -> dict[str, Any]:
        for path in self._paths:
            # Raises EntityMissing: a wrong name is an error at once.
            peek(self._namespace, path, 1, 1)
        return DeferredOffset(reader=self._options.reader or "").to_json()

    def end_with_what_is_there(self) -> None:
        self._targets = {path: self._last(path) for path in self._paths}

    def _last(self, path: str) -> int:
        try:
            return last_number(self._namespace, path) or 0
        except EntityMissing as error:
            self._on_missing(error)
            return 0

    def advance(
        self, start: Mapping[str, Any], max_messages: int | None
    ) -> dict[str, Any]:
        """The next batch; `start` itself if there is nothing to read."""
        offset = read_deferred_offset(start)
        if not offset.reader:
            return replace(offset, reader=uuid4().hex).to_json()
        self._settle(offset)
        self._lasts = self._targets
        if self._lasts is None and max_messages is None:
            # Read what is there now. With new messages included, it might never end.
            self._lasts = {path: self._last(path) for path in self._paths}
        entities = self._take(offset, max_messages)
        if not entities and self._targets is not None:
            entities = self._take_held(offset, max_messages)
        if not entities:
            if self._targets is None:
                rest(AMQP_SECONDS)
            return offset.to_json()
        return DeferredOffset(
            reader=offset.reader, batch=offset.batch + 1, entities=entities
        ).to_json()

    def latest(self) -> None:
        """Over AMQP, nobody tells how many messages wait."""

    def partitions(
        self, start: Mapping[str, Any], end: Mapping[str, Any]
    ) -> Sequence[InputPartition]:
        options = self._options
        return [
            DeferredPartition(
                options.connection,
                ranges,
                options.columns,
                ("deferred",),
                options.fails_on_loss,
                options.patience_ms,
            )
            for ranges in splits(
                read_deferred_offset(end).entities, options.max_partitions
            )
        ]

    def committed(self, end: Mapping[str, Any]) -> None:
        """Nothing to do: the batch was settled when the next one was planned."""

    def close(self) -> None:
        self._namespace.close()

    # --- settling -------------------------------------------------------------

    def _settle(self, offset: DeferredOffset) -> None:
        """Settle the batch, once: idle queries give the same start again and again."""
        if offset.batch == self._settled_batch:
            return
        mark = None if self._options.adopts_deferred else offset.reader
        for path, part in offset.entities.items():
            settle(
                self._namespace,
                path,
                part,
                mark,
                looks_first=self._settled_batch == _NO_BATCH,
            )
        self._settled_batch = offset.batch

    # --- taking ---------------------------------------------------------------

    def _take(
        self, offset: DeferredOffset, max_messages: int | None
    ) -> dict[str, DeferredPart]:
        taken: dict[str, DeferredPart] = {}
        shares = Shares(
            self._paths,
            max_messages,
            self._options.max_bytes,
            turn=offset.batch,
        )
        for path, messages, size_bytes in shares:
            known = taken.get(path)
            part = self._take_entity(
                path,
                offset.reader,
                messages,
                size_bytes,
                # Messages that this batch has deferred are not orphans.
                looks_for_orphans=known is None,
            )
            if part is not None:
                shares.spend(path, len(part.numbers), part.size_bytes)
                taken[path] = part if known is None else known.joined(part)
        return taken

    def _take_held(
        self, offset: DeferredOffset, max_messages: int | None
    ) -> dict[str, DeferredPart]:
        """Wait for messages that are there and did not come: otherwise the query would
        end without them. After a minute, leave them to the receivers that hold them."""
        patience = RetryPatience(_HELD_SECONDS)
        while held := self._held():
            if not patience.wait():
                _log.warning("left to other receivers: messages of %s", held)
                break
            entities = self._take(offset, max_messages)
            if entities:
                return entities
        return {}

    def _held(self) -> list[str]:
        """Entities that have active messages from before the query began."""
        found: list[str] = []
        for path, last in (self._targets or {}).items():
            try:
                if last and self._lookouts[path].active(last):
                    found.append(path)
            except EntityMissing as error:
                self._on_missing(error)
        return found

    def _take_entity(
        self,
        path: str,
        reader: str,
        messages: int,
        size_bytes: int,
        *,
        looks_for_orphans: bool,
    ) -> DeferredPart | None:
        try:
            part = _NOTHING
            if looks_for_orphans:
                part = self._adopt(path, reader, messages, size_bytes, to_the_end=False)
            messages -= len(part.numbers)
            size_bytes -= part.size_bytes
            if messages > 0 and size_bytes > 0:
                part = part.joined(self._receive(path, reader, messages, size_bytes))
            if looks_for_orphans and not len(part.numbers):
                part = self._adopt(path, reader, messages, size_bytes, to_the_end=True)
            return part if len(part.numbers) else None
        except EntityMissing as error:
            self._on_missing(error)
            return None

    def _adopt(
        self,
        path: str,
        reader: str,
        messages: int,
        size_bytes: int,
        *,
        to_the_end: bool,
    ) -> DeferredPart:
        """Messages that were deferred before and are in no batch."""
        found = self._search(path, reader).look(
            messages, size_bytes, to_the_end=to_the_end
        )
        if not found:
            return _NOTHING
        _log.warning(
            "'%s': %d messages that were deferred before are taken up",
            path,
            len(found),
        )
        return DeferredPart(
            numbers=NumberRanges.of(one.number for one in found),
            size_bytes=sum(one.size_bytes for one in found),
            has_sessions=self._requires_sessions(path, found),
        )

    def _search(self, path: str, reader: str) -> OrphanSearch:
        if path not in self._searches:
            self._searches[path] = OrphanSearch(
                self._namespace, path, reader, self._options.adopts_deferred
            )
        return self._searches[path]

    def _receive(
        self, path: str, reader: str, messages: int, size_bytes: int
    ) -> DeferredPart:
        """Receive and defer what is active."""
        last = None if self._lasts is None else self._lasts[path]
        seen = self._lookouts[path].active(last)
        if not seen:
            return _NOTHING
        if last is not None:
            # Not more than there can be up to the last number.
            messages = min(messages, last - seen[0].number + 1)
        mean_bytes = sum(one.size_bytes for one in seen) // len(seen)
        allowance = Allowance(messages, size_bytes, mean_bytes)
        has_sessions = self._requires_sessions(path, seen)
        if has_sessions:
            takers = self._take_sessions(path, reader, allowance, seen)
        else:
            takers = [Taker(self._namespace, path, reader, allowance)]
            takers[0].take()
        return DeferredPart(
            numbers=NumberRanges.of(n for taker in takers for n in taker.numbers),
            size_bytes=sum(taker.size_bytes for taker in takers),
            has_sessions=has_sessions,
        )

    def _on_missing(self, error: EntityMissing) -> None:
        text = f"{error} Its messages that were not read are lost."
        report_loss(text, fails=self._options.fails_on_loss)

    # --- sessions -------------------------------------------------------------

    def _requires_sessions(self, path: str, seen: Sequence[Sighting]) -> bool:
        """A message without a session proves that the entity has no sessions. One with
        a session proves nothing: every queue may have it."""
        if any(message.session_id is None for message in seen):
            self._has_sessions[path] = False
        if path not in self._has_sessions:
            try:
                close_quietly(self._namespace.receiver(path))
                self._has_sessions[path] = False
            except SessionsRequired:
                self._has_sessions[path] = True
        return self._has_sessions[path]

    def _take_sessions(
        self,
        path: str,
        reader: str,
        allowance: Allowance,
        seen: Sequence[Sighting],
    ) -> list[Taker]:
        """Messages of the sessions that come first. If other receivers hold all of
        these, those of any other session."""
        session_ids = list(dict.fromkeys(message.session_id for message in seen))

        def take(session_id: str | None) -> Taker:
            with self._namespace.another() as namespace:
                taker = Taker(namespace, path, reader, allowance, len(session_ids))
                taker.take_session(session_id)
                return taker

        takers = with_sessions(take, session_ids)
        if not any(taker.numbers for taker in takers):
            takers.append(take(None))
        return takers


def _check_options(options: ReadOptions) -> None:
    """Raises OptionError for options that a stream which receives cannot have."""
    bounds = options.bounds
    for name, is_given in (
        ("startingPosition", options.starts_with_latest),
        ("fromSequence", bounds.from_sequence is not None),
        ("startTime", bounds.start_time is not None),
        ("alignment", options.is_aligned),
    ):
        if is_given:
            raise OptionError(
                f"'{name}' cannot be with settlement=defer: messages are taken as the "
                "namespace hands them out. Leave it out, or use browse."
            )
