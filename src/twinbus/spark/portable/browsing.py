"""Browses any namespace, by peeking: the messages that are there, and new ones.

It needs the claim Listen. Without a bulk plan, the number of messages in a range of
sequence numbers is unknown. So a batch of at most N messages is a range of at most N
numbers, and its size in bytes is estimated from the first messages.
"""

from dataclasses import replace
from typing import Any, Final
from uuid import uuid4

from twinbus.spark.data_loss import report_loss
from twinbus.spark.latest_offset import EntityEnd, latest_offset
from twinbus.spark.offsets import AMQP_GENERATION, Offset, Position
from twinbus.spark.option_reader import OptionError
from twinbus.spark.packing import Range
from twinbus.spark.portable.delivered import Delivered
from twinbus.spark.portable.errors import EntityMissing, PortableError
from twinbus.spark.portable.namespace import PortableNamespace
from twinbus.spark.portable.peeking import first_since, last_number, peek
from twinbus.spark.portable.shares import Shares
from twinbus.spark.read_options import ReadOptions
from twinbus.spark.resting import AMQP_SECONDS, rest

_FRAGMENT: Final = 0
_FIRST_NUMBER: Final = 1
_SMALLEST_SPLIT: Final = 1_000
"""The least numbers of a range: a partition for fewer costs more than it saves."""

_SPLITS_PER_PARTITION: Final = 4


def present_ranges(options: ReadOptions) -> list[Range]:
    """All messages that are there, within the bounds. Raises PortableError."""
    ranges: list[Range] = []
    with PortableNamespace(options.connection, options.patience_ms) as namespace:
        for path in named_entities(options):
            first, end = _bounds(namespace, options, path)
            ranges += split_range(path, first, end, options.max_partitions)
    return ranges


def named_entities(options: ReadOptions) -> tuple[str, ...]:
    """Raises OptionError."""
    if options.pattern is not None:
        raise OptionError(
            "'entityPattern' needs a twinbus namespace that is not strict: others do "
            "not tell a reader which entities there are. Name them in 'entities'."
        )
    return options.entities


def _bounds(
    namespace: PortableNamespace, options: ReadOptions, path: str
) -> tuple[int, int]:
    """The first number to read, and the one after the last."""
    # Times that a query filters by are left to Spark: other namespaces do not promise
    # that later numbers have later times.
    numbers = replace(options.pushed, start_time=None, end_time=None)
    bounds = options.bounds.narrowed(numbers)
    last = conventional_last(namespace, path)
    if last is None:
        return _FIRST_NUMBER, _FIRST_NUMBER
    first, end = max(bounds.from_sequence or 0, _FIRST_NUMBER), last + 1
    if bounds.start_time is not None:
        first = max(first, first_since(namespace, path, bounds.start_time, last))
    if bounds.to_sequence is not None:
        end = min(end, bounds.to_sequence + 1)
    if bounds.end_time is not None:
        end = min(end, first_since(namespace, path, bounds.end_time, last))
    if first >= end:
        return first, first
    return _first_there(namespace, path, first), end


def _first_there(namespace: PortableNamespace, path: str, first: int) -> int:
    """The parts that have messages: whole ranges of numbers may have been settled."""
    found = peek(namespace, path, first, 1)
    return found[0].number if found else first


def conventional_last(
    namespace: PortableNamespace, path: str, known: int | None = None
) -> int | None:
    """The last number in use. Raises PortableError for a partitioned entity: the
    numbers of its fragments are far apart, and each fragment gets new ones."""
    last = last_number(namespace, path, known)
    if last is not None and last >> 48:
        raise PortableError(
            f"'{path}' is partitioned, and cannot be browsed by number over AMQP. Use "
            "spark.readStream with settlement=defer, or an entity that is not."
        )
    return last


def split_range(path: str, first: int, end: int, max_partitions: int) -> list[Range]:
    """Split a range into parts for tasks."""
    count = max_partitions * _SPLITS_PER_PARTITION
    width = max(-(-(end - first) // count), _SMALLEST_SPLIT)
    return [
        Range(
            path=path,
            generation=AMQP_GENERATION,
            fragment=_FRAGMENT,
            first=at,
            end=min(at + width, end),
            message_count=min(at + width, end) - at,
            size_bytes=0,
        )
        for at in range(first, end, width)
    ]


class BrowsingStream:
    """`PositionedEngine` that settles nothing."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._paths = named_entities(options)
        self._namespace = PortableNamespace(options.connection, options.patience_ms)
        self._initial: Offset | None = None
        # For a query that reads what is there and ends: the number after the last, by
        # path in lower case.
        self._targets: dict[str, int] | None = None
        # For the progress: one after the last number, by path, as last seen.
        self._ends: dict[str, int] = {}
        self._reached: Offset | None = None

    def initial(self) -> Offset:
        """Where a query without a checkpoint begins. The same for every call."""
        if self._initial is None:
            self._initial = Offset(
                reader=self._options.reader or uuid4().hex,
                entities={path: _position(self._begin(path)) for path in self._paths},
            )
        return self._initial

    def _begin(self, path: str) -> int:
        options, bounds = self._options, self._options.bounds
        last = conventional_last(self._namespace, path)
        if options.starts_with_latest:
            return _FIRST_NUMBER if last is None else last + 1
        if bounds.start_time is not None and last is not None:
            return first_since(self._namespace, path, bounds.start_time, last)
        return bounds.from_sequence or _FIRST_NUMBER

    def end_with_what_is_there(self) -> None:
        self._targets = {path.lower(): self._end(path) for path in self._paths}

    def _end(self, path: str, known: int | None = None) -> int:
        """One after the last number; 0 if there is nothing, or no entity."""
        try:
            last = conventional_last(self._namespace, path, known)
        except EntityMissing as error:
            self._on_missing(error)
            return 0
        return 0 if last is None else last + 1

    def _on_missing(self, error: EntityMissing) -> None:
        text = f"{error} Its messages that were not read are lost."
        report_loss(text, fails=self._options.fails_on_loss)

    def advance(self, start: Offset, max_messages: int | None) -> Offset:
        """Where the next batch ends; `start` itself if there is nothing to read."""
        start.check_namespace(is_twinbus=False)
        entities = dict(start.entities)
        # Letter case does not matter: keep the spelling that was used before.
        known = {path.lower(): path for path in entities}
        shares = Shares(
            [known.get(path.lower(), path) for path in self._paths],
            max_messages,
            self._options.max_bytes,
            turn=sum(position.next[_FRAGMENT] for position in entities.values()),
        )
        for path, messages, size_bytes in shares:
            position = entities.get(path) or _position(_FIRST_NUMBER)
            found = self._next_end(path, position, messages, size_bytes)
            if found is not None:
                end, count, used_bytes = found
                entities[path] = replace(position, next={_FRAGMENT: end})
                shares.spend(path, count, used_bytes)
        end_of_batch = replace(start, entities=entities)
        self._reached = end_of_batch
        if end_of_batch == start and self._targets is None:
            rest(AMQP_SECONDS)
        return end_of_batch

    def _next_end(
        self, path: str, position: Position, messages: int, size_bytes: int
    ) -> tuple[int, int, int] | None:
        """Where the batch ends in an entity, and how many messages and bytes it may
        have; None if there is nothing to read."""
        sample = self._sample(path, position.next[_FRAGMENT])
        if not sample:
            return None
        first = sample[0].number
        end = self._end(path, sample[-1].number)
        self._ends[path] = end
        if self._targets is not None:
            end = min(end, self._targets.get(path.lower(), 0))
        mean_bytes = sum(len(message.raw) for message in sample) // len(sample)
        end = min(end, first + max(min(messages, size_bytes // mean_bytes), 1))
        count = end - first
        return (end, count, count * mean_bytes) if count > 0 else None

    def _sample(self, path: str, first: int) -> list[Delivered]:
        try:
            return peek(self._namespace, path, first)
        except EntityMissing as error:
            self._on_missing(error)
            return []

    def latest(self) -> dict[str, Any] | None:
        if self._reached is None:
            return None
        reached = self._reached.entities
        # An entity that had nothing new ends where it was read to.
        ends = [
            EntityEnd(
                path=path,
                next={_FRAGMENT: max(self._ends.get(path, 0), done.next[_FRAGMENT])},
            )
            for path, done in reached.items()
        ]
        return latest_offset(ends, reached)

    def split(self, start: Offset, end: Offset) -> list[Range]:
        end.check_namespace(is_twinbus=False)
        ranges: list[Range] = []
        for path, position in end.entities.items():
            before = start.entities.get(path)
            first = _FIRST_NUMBER if before is None else before.next[_FRAGMENT]
            following = position.next[_FRAGMENT]
            ranges += split_range(path, first, following, self._options.max_partitions)
        return ranges

    def committed(self, end: Offset) -> None:
        """Nothing is settled."""

    def close(self) -> None:
        self._namespace.close()


def _position(number: int) -> Position:
    numbers = {_FRAGMENT: number}
    return Position(generation=AMQP_GENERATION, begin=numbers, next=numbers)
