"""The tables of a report: names, columns and what they mean.

The page docs/reference/report.md is made of this, and files are written by it. A
column is never renamed or given another type; new ones are added at the end.
"""

from dataclasses import dataclass
from typing import Any, Final

TEXT: Final = "string"
WHOLE: Final = "long"
NUMBER: Final = "double"
TIME: Final = "timestamp"
_SHORT: Final = "int"


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, its type in Spark, what it holds."""

    name: str
    type: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportTable:
    """A table. That of hours has a folder for each hour; others are made anew."""

    name: str
    text: str
    columns: tuple[Column, ...]
    has_hours: bool = False

    def arrow_schema(self) -> Any:
        """The schema of its files."""
        import pyarrow

        types = {
            TEXT: pyarrow.string(),
            WHOLE: pyarrow.int64(),
            NUMBER: pyarrow.float64(),
            TIME: pyarrow.timestamp("us", tz="UTC"),
            _SHORT: pyarrow.int32(),
        }
        return pyarrow.schema([(item.name, types[item.type]) for item in self.columns])


_HOUR: Final = Column("hour_start", TIME, "begin of the hour, UTC")
_NAMESPACE: Final = Column("namespace", TEXT, "as the log names it")
_ENTITY: Final = Column("entity", TEXT, "path")
_WHERE: Final = (_NAMESPACE, _ENTITY)
_REASON: Final = Column("reason", TEXT, "of the dead letter; empty if none was given")

VOLUMES: Final = ReportTable(
    name="volumes",
    text="What was done, hour by hour.",
    has_hours=True,
    columns=(
        _HOUR,
        *_WHERE,
        Column("operation", TEXT, "send, lock, complete, ..."),
        Column("result", TEXT, "ok, refused, empty, failed, unknown"),
        Column("operations", WHOLE, "how many"),
        Column("bytes", WHOLE, "sum of the sizes of the messages"),
    ),
)
LATENCIES: Final = ReportTable(
    name="latencies",
    text="Histograms of latencies. They can be added up over hours and entities.",
    has_hours=True,
    columns=(
        _HOUR,
        Column(
            "measure",
            TEXT,
            "send_to_deliver, deliver_to_complete, backlog_dwell, restore_lag",
        ),
        *_WHERE,
        Column(
            "bucket",
            _SHORT,
            "0: below 1 ms; b: from 2^((b-1)/32) to 2^(b/32) ms",
        ),
        Column("messages", WHOLE, "how many fell into the bucket"),
        Column("least_ms", NUMBER, "the least of them"),
        Column("greatest_ms", NUMBER, "the greatest of them"),
    ),
)
FRAGMENTS: Final = ReportTable(
    name="fragments",
    text="What came to and left each fragment of the entities.",
    has_hours=True,
    columns=(
        _HOUR,
        *_WHERE,
        Column("fragment", _SHORT, "index within the entity"),
        Column("sent", WHOLE, "messages that came: sent, restored, forwarded"),
        Column("delivered", WHOLE, "deliveries"),
        Column("bytes", WHOLE, "of what came"),
    ),
)
DEAD_LETTERS: Final = ReportTable(
    name="dead_letters",
    text="Messages that became dead letters, by reason.",
    has_hours=True,
    columns=(
        _HOUR,
        *_WHERE,
        _REASON,
        Column("messages", WHOLE, "how many"),
    ),
)
COSTS: Final = ReportTable(
    name="costs",
    text="What the operations cost, by each price book.",
    has_hours=True,
    columns=(
        _HOUR,
        Column("book", TEXT, "name of the price book"),
        *_WHERE,
        Column("kind", TEXT, "send, lock, complete, ..."),
        Column("billed", NUMBER, "operations, as the book counts them"),
        Column("cost", NUMBER, "in the currency of the book"),
    ),
)
PERCENTILES: Final = ReportTable(
    name="percentiles",
    text="Percentiles of latencies, of all entities together and of each.",
    columns=(
        Column("measure", TEXT, "as in latencies"),
        Column("namespace", TEXT, "null: of all"),
        Column("entity", TEXT, "null: of all"),
        Column("messages", WHOLE, "how many were measured"),
        Column("p50_ms", NUMBER, "half of them took no longer; off by 1.1 % at most"),
        Column("p90_ms", NUMBER, "90 % took no longer"),
        Column("p95_ms", NUMBER, "95 % took no longer"),
        Column("p99_ms", NUMBER, "99 % took no longer"),
        Column("greatest_ms", NUMBER, "the longest, exact"),
    ),
)
SKEW: Final = ReportTable(
    name="skew",
    text="How evenly the messages of partitioned entities are spread.",
    columns=(
        *_WHERE,
        Column("fragments", WHOLE, "that got messages"),
        Column("sent", WHOLE, "messages"),
        Column("fullest_fragment", _SHORT, "the one that got the most"),
        Column("fullest_sent", WHOLE, "how many it got"),
        Column("skew", NUMBER, "these, divided by the mean of the fragments"),
    ),
)
SESSIONS: Final = ReportTable(
    name="sessions",
    text="The busiest sessions of each entity.",
    columns=(
        *_WHERE,
        Column("session_id", TEXT, "as its messages have it"),
        Column("sent", WHOLE, "messages that came"),
        Column("delivered", WHOLE, "deliveries"),
        Column("bytes", WHOLE, "of what came"),
        Column("rank", _SHORT, "1: the busiest of its entity"),
    ),
)
DEAD_LETTER_GROUPS: Final = ReportTable(
    name="dead_letter_groups",
    text="Dead letters of one entity with one reason.",
    columns=(
        *_WHERE,
        _REASON,
        Column("messages", WHOLE, "how many"),
        Column("first_at", TIME, "when the first became one"),
        Column("last_at", TIME, "when the last became one"),
        Column("command", TEXT, "sends them again, the newest 200 at most"),
    ),
)
DEAD_LETTER_SAMPLES: Final = ReportTable(
    name="dead_letter_samples",
    text="The newest dead letters of each group.",
    columns=(
        *_WHERE,
        _REASON,
        Column("occurred_at", TIME, "when it became one"),
        Column("sequence_number", WHOLE, "of the dead letter"),
        Column("operation", TEXT, "what made it one; null: not in the log"),
        Column("message_id", TEXT, "null: its send is not in the log"),
        Column("session_id", TEXT, "null: none, or the entity has no sessions"),
        Column("delivery_count", _SHORT, "how often it was delivered"),
        Column("client", TEXT, "who did that; null: the bus itself"),
    ),
)
OUTAGES: Final = ReportTable(
    name="outages",
    text="Times in which sends to an entity failed or were diverted.",
    columns=(
        Column("entity", TEXT, "path on the primary; null: the log does not tell"),
        Column("began_at", TIME, "the first send that failed or was diverted"),
        Column("failed_over_at", TIME, "the first that was diverted"),
        Column("last_at", TIME, "the last that failed or was diverted"),
        Column("back_at", TIME, "the first direct send afterwards that succeeded"),
        Column("drained_at", TIME, "when the last of them was restored"),
        Column("failed", WHOLE, "sends that failed, or whose outcome is unknown"),
        Column("diverted", WHOLE, "messages"),
        Column("restored", WHOLE, "of these, messages that are back"),
        Column("pings", WHOLE, "of the entity, until it was back"),
    ),
)
COURSE: Final = ReportTable(
    name="course",
    text="What was done, in steps that suit the length of the report.",
    columns=(
        Column("at", TIME, "begin of the step"),
        Column("what", TEXT, "sent, delivered, completed, diverted, restored, refused"),
        Column("operations", WHOLE, "how many"),
    ),
)
DEAD_LETTER_COURSE: Final = ReportTable(
    name="dead_letter_course",
    text="Dead letters of all entities by reason, in the same steps.",
    columns=(
        Column("at", TIME, "begin of the step"),
        _REASON,
        Column("messages", WHOLE, "how many"),
    ),
)
LATENCY_COURSE: Final = ReportTable(
    name="latency_course",
    text="Latencies of all entities, in the same steps.",
    columns=(
        Column("at", TIME, "begin of the step"),
        Column("measure", TEXT, "as in latencies"),
        Column("messages", WHOLE, "how many"),
        Column("p50_ms", NUMBER, "median"),
        Column("p99_ms", NUMBER, "99 % took no longer"),
    ),
)

LOG_SOURCES: Final = ReportTable(
    name="log_sources",
    text="Which logs were read, and how far they reach.",
    columns=(
        Column("source", TEXT, "a message store, or a paired sender"),
        _NAMESPACE,
        Column("segments", WHOLE, "files that were read"),
        Column("rows", WHOLE, "operations in them"),
        Column("first_at", TIME, "of the first operation"),
        Column("last_at", TIME, "of the last operation"),
        Column("complete_until", TIME, "until then nothing can come later"),
    ),
)
LOG_GAPS: Final = ReportTable(
    name="log_gaps",
    text="What the logs do not have.",
    columns=(
        Column("source", TEXT, "whose log"),
        _NAMESPACE,
        Column("why", TEXT, "crash, retention, unreadable, missing, damaged"),
        Column("what", TEXT, "segments or commits"),
        Column("since", TIME, "what is missing happened after this"),
        Column("until", TIME, "and before this"),
    ),
)

TABLES: Final = (
    VOLUMES,
    LATENCIES,
    FRAGMENTS,
    DEAD_LETTERS,
    COSTS,
    PERCENTILES,
    SKEW,
    SESSIONS,
    DEAD_LETTER_GROUPS,
    DEAD_LETTER_SAMPLES,
    OUTAGES,
    COURSE,
    DEAD_LETTER_COURSE,
    LATENCY_COURSE,
    LOG_SOURCES,
    LOG_GAPS,
)
