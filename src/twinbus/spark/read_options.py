"""The options of `spark.read` and `spark.readStream`.

docs/howto/spark.md has them as a table, made from here.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from twinbus.limits import BULK_SESSIONS, MESSAGE_ID_CHARACTERS
from twinbus.spark.connection import (
    CONNECTION_OPTIONS,
    SparkConnection,
    read_connection,
)
from twinbus.spark.option_reader import OptionError, OptionReader
from twinbus.spark.schema import BODY_COLUMNS, COLUMNS, RAW

_MAX_NUMBER: Final = (1 << 63) - 1
STATES: Final = ("active", "deferred", "scheduled")


class StreamSettlement(StrEnum):
    """What happens to messages after a stream has read them."""

    BROWSE = "browse"
    EXCLUSIVE = "exclusive"
    DEFER = "defer"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBounds:
    """Which messages are wanted; None: no bound."""

    from_sequence: int | None = None
    # The last one that is wanted.
    to_sequence: int | None = None
    # Enqueued at this time or later, and before that one; milliseconds.
    start_time: int | None = None
    end_time: int | None = None

    def narrowed(self, other: "ReadBounds") -> "ReadBounds":
        """What both want."""
        return ReadBounds(
            from_sequence=_most(self.from_sequence, other.from_sequence),
            to_sequence=_least(self.to_sequence, other.to_sequence),
            start_time=_most(self.start_time, other.start_time),
            end_time=_least(self.end_time, other.end_time),
        )


def _most(one: int | None, other: int | None) -> int | None:
    return max((v for v in (one, other) if v is not None), default=None)


def _least(one: int | None, other: int | None) -> int | None:
    return min((v for v in (one, other) if v is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """A checked set of options."""

    connection: SparkConnection
    # One of these is set.
    entities: tuple[str, ...]
    pattern: str | None
    settlement: StreamSettlement
    bounds: ReadBounds
    # A stream without a checkpoint begins with what is there, or with what comes.
    starts_with_latest: bool
    max_messages: int
    max_bytes: int
    # Whether fewer messages than were planned are an error.
    fails_on_loss: bool
    columns: tuple[str, ...]
    states: tuple[str, ...]
    # Only messages of these sessions; None: all.
    sessions: tuple[str, ...] | None
    # Whether Spark passes on what a query filters by, and what it passed.
    pushes_filters: bool
    pushed: ReadBounds
    max_partitions: int
    lease_ms: int
    lease_wait_ms: int
    reader: str | None
    is_aligned: bool
    # Whether messages that others deferred are read, too.
    adopts_deferred: bool
    patience_ms: int


READ_OPTIONS: Final = {
    "entities": "paths, separated by commas: queues, TOPIC/subscriptions/NAME, and "
    "PATH/$deadletterqueue; `load(PATH)` is the same",
    "entityPattern": "instead: a pattern with * and ?; new entities are read, too",
    "settlement": "streams: browse, exclusive or defer",
    "maxMessagesPerBatch": "streams: most messages of one micro-batch",
    "maxBytesPerBatch": "streams: most bytes of one micro-batch, as 256m",
    "failOnDataLoss": "auto, true or false: whether it is an error if planned messages "
    "are gone",
    "startingPosition": "streams without a checkpoint: earliest or latest",
    "fromSequence": "the first sequence number to read; not for streams of partitioned "
    "entities",
    "toSequence": "batches: the last sequence number to read",
    "startTime": "read messages that were enqueued at this time or later; ISO 8601, in "
    "UTC if it has no zone",
    "endTime": "batches: read messages that were enqueued before this time",
    "columns": "all, header (without body and properties), or names of columns",
    "includeRaw": "true: also the whole message as AMQP bytes",
    "states": "batches: which of active, deferred, scheduled",
    "sessions": "batches: only messages of these sessions, separated by commas; then "
    "it is not noticed if planned messages are gone",
    "pushFilters": "batches: true: the bus applies what the query filters by; see "
    "[below](#filters-that-the-bus-applies) when that is safe",
    "maxPartitions": "at most so many partitions",
    "leaseDuration": "exclusive: how long other readers have to wait after a crash",
    "leaseWait": "exclusive: how long to wait for another reader's lease",
    "readerId": "exclusive, defer: the id of the reader, instead of a random one",
    "alignment": "time: a batch ends at the same enqueued time in all entities",
    "adoptDeferred": "defer: own or all: whether the query reads only messages that it "
    "deferred itself before it was stopped, or also those that others deferred",
    "timeout": "how long to wait for a namespace that does not answer or is busy",
}
"""All options, except those of the connection, with their meaning."""


def read_options(options: Mapping[str, str], *, is_stream: bool) -> ReadOptions:
    """Raises OptionError."""
    reader = OptionReader(options)
    reader.check_no_table()
    reader.check_known((*READ_OPTIONS, *CONNECTION_OPTIONS, "path"))
    settlement = StreamSettlement(
        reader.choice("settlement", tuple(StreamSettlement), StreamSettlement.BROWSE)
    )
    if not is_stream and settlement is not StreamSettlement.BROWSE:
        raise OptionError(
            f"'settlement' is {settlement}, which only streams can do: spark.read "
            "never settles. Use spark.readStream with trigger(availableNow=True)."
        )
    entities, pattern = _entities(reader)
    lease_ms = reader.milliseconds("leaseDuration", 5_000, 3_600_000, 60_000)
    return ReadOptions(
        connection=read_connection(reader),
        entities=entities,
        pattern=pattern,
        settlement=settlement,
        bounds=_bounds(reader, is_stream),
        starts_with_latest=reader.choice(
            "startingPosition", ("earliest", "latest"), "earliest"
        )
        == "latest",
        max_messages=reader.number("maxMessagesPerBatch", 1, 1_000_000, 100_000),
        max_bytes=reader.size("maxBytesPerBatch", 1, 1 << 36, 256 << 20),
        fails_on_loss=_fails_on_loss(reader, settlement),
        columns=columns_of(reader),
        states=_states(reader, is_stream),
        sessions=_sessions(reader, is_stream),
        pushes_filters=_pushes_filters(reader, is_stream),
        pushed=ReadBounds(),
        max_partitions=reader.number("maxPartitions", 1, 10_000, _partitions()),
        lease_ms=lease_ms,
        lease_wait_ms=reader.milliseconds(
            "leaseWait", 0, 86_400_000, lease_ms + 30_000
        ),
        reader=_reader_id(reader),
        is_aligned=reader.choice("alignment", ("none", "time"), "none") == "time",
        adopts_deferred=reader.choice("adoptDeferred", ("own", "all"), "own") == "all",
        patience_ms=reader.milliseconds("timeout", 1_000, 86_400_000, 300_000),
    )


def _partitions() -> int:
    """Twice the cores of this host; for a cluster, the user sets `maxPartitions`."""
    return 2 * (os.cpu_count() or 4)


def _entities(reader: OptionReader) -> tuple[tuple[str, ...], str | None]:
    named = reader.text("entities") or reader.text("path")
    pattern = reader.text("entityPattern")
    if (named is None) == (pattern is None):
        raise OptionError(
            "Give either 'entities' (paths, separated by commas) or 'entityPattern'."
        )
    if named is None:
        return (), pattern
    paths = [path.strip().strip("/") for path in named.split(",")]
    if not all(paths):
        raise OptionError(f"'entities' is '{named[:100]}', which has an empty path.")
    folded = [path.lower() for path in paths]
    twice = [path for path in paths if folded.count(path.lower()) > 1]
    if twice:
        raise OptionError(f"'entities' names '{twice[0]}' twice.")
    return tuple(paths), None


def _bounds(reader: OptionReader, is_stream: bool) -> ReadBounds:
    if is_stream:
        for name in ("toSequence", "endTime"):
            if reader.text(name) is not None:
                raise OptionError(
                    f"'{name}' is for batches: a stream has no end. Use spark.read, or "
                    "trigger(availableNow=True)."
                )
    bounds = ReadBounds(
        from_sequence=reader.optional_number("fromSequence", 0, _MAX_NUMBER),
        to_sequence=reader.optional_number("toSequence", 0, _MAX_NUMBER),
        start_time=reader.instant("startTime"),
        end_time=reader.instant("endTime"),
    )
    if bounds.from_sequence is not None and bounds.start_time is not None:
        raise OptionError("Give either 'fromSequence' or 'startTime', not both.")
    if bounds.to_sequence is not None and bounds.end_time is not None:
        raise OptionError("Give either 'toSequence' or 'endTime', not both.")
    return bounds


def _fails_on_loss(reader: OptionReader, settlement: StreamSettlement) -> bool:
    value = reader.choice("failOnDataLoss", ("auto", "true", "false"), "auto")
    if value == "auto":
        # A reader that only browses must expect that others remove messages.
        return settlement is not StreamSettlement.BROWSE
    return value == "true"


def columns_of(reader: OptionReader) -> tuple[str, ...]:
    text = reader.text("columns") or "all"
    names: list[str]
    if text.lower() == "all":
        names = [name for name in COLUMNS if name != RAW]
    elif text.lower() == "header":
        names = [name for name in COLUMNS if name not in (*BODY_COLUMNS, RAW)]
    else:
        names = [name.strip() for name in text.split(",")]
        for name in names:
            if name not in COLUMNS:
                known = ", ".join(COLUMNS)
                raise OptionError(
                    f"'columns' has '{name[:40]}'; it must be all, header, or some of "
                    f"{known}."
                )
    if reader.flag("includeRaw") and RAW not in names:
        names.append(RAW)
    return tuple(name for name in COLUMNS if name in names)


def _states(reader: OptionReader, is_stream: bool) -> tuple[str, ...]:
    text = reader.text("states")
    if text is None:
        return ("active",)
    if is_stream:
        raise OptionError("'states' is for batches: a stream reads active messages.")
    names = tuple(name.strip().lower() for name in text.split(","))
    for name in names:
        if name not in STATES:
            raise OptionError(
                f"'states' has '{name[:40]}'; it must be some of {', '.join(STATES)}."
            )
    return names


def _sessions(reader: OptionReader, is_stream: bool) -> tuple[str, ...] | None:
    text = reader.text("sessions")
    if text is None:
        return None
    if is_stream:
        raise OptionError(
            "'sessions' is for batches: a stream reads whole entities. Filter with "
            "where(), or give these sessions a subscription with a rule."
        )
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    if len(names) > BULK_SESSIONS:
        raise OptionError(
            f"'sessions' has {len(names)} ids; at most {BULK_SESSIONS} are allowed. "
            "Filter with where() instead."
        )
    for name in names:
        if not is_session_id(name):
            raise OptionError(
                f"'sessions' has '{name[:40]}'; an id has 1 to {MESSAGE_ID_CHARACTERS} "
                "printable characters. Filter with where() instead."
            )
    return names


def is_session_id(text: str) -> bool:
    """Whether a bus can be asked for it."""
    return 0 < len(text) <= MESSAGE_ID_CHARACTERS and text.isprintable()


def _pushes_filters(reader: OptionReader, is_stream: bool) -> bool:
    if is_stream and reader.text("pushFilters") is not None:
        raise OptionError(
            "'pushFilters' is for batches: Spark does not tell a stream what a query "
            "filters by."
        )
    return reader.flag("pushFilters")


def _reader_id(reader: OptionReader) -> str | None:
    text = reader.text("readerId")
    if text is not None and len(text) > 128:
        raise OptionError(
            f"'readerId' has {len(text)} characters; at most 128 are allowed."
        )
    return text
