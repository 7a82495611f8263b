"""Reduces operations to small tables, in Spark.

Each function takes the operations of a log and returns a DataFrame that fits into the
driver's memory: one row for each step of time and each entity, and no more. `at` is
the begin of a step, by arithmetic on epoch seconds: session time zones do not matter.
Nothing here depends on the order in which Spark meets the rows.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from twinbus.spark.jobs.report.histogram import BUCKET_SQL

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_BACKLOG_PATH: Final = "lower(entity) RLIKE '.+/x-servicebus-transfer/[0-9]+'"
_DELIVERIES: Final = "('lock', 'receive_and_delete')"
_SENDS: Final = "('send', 'schedule')"
_ENDS_IN_BACKLOG: Final = "('complete', 'receive_and_delete', 'delete')"
_IS_ARRIVAL: Final = "operation IN ('send', 'restore', 'arrive') AND subqueue IS NULL"
"""The bus itself puts a message into a subscription, or where it is forwarded to. A
scheduled message arrives when it is activated."""

_IS_DELIVERY: Final = f"operation IN {_DELIVERIES} AND subqueue IS NULL"
_IS_DEAD_LETTER: Final = (
    "result = 'ok' AND operation = 'arrive' AND lower(subqueue) LIKE '%deadletterqueue'"
)
"""Whoever made it one: each dead letter arrives in a dead-letter queue once."""

_IS_OF_A_STORE: Final = "source NOT LIKE 'sender-%'"
_IS_OF_A_SENDER: Final = "source LIKE 'sender-%'"
_IS_BILLED_PING: Final = f"operation = 'ping' AND ({_IS_OF_A_STORE} OR result <> 'ok')"
"""A ping that was accepted is in the log of the sender and in that of the store."""


def step_sql(column: str, step_seconds: int) -> str:
    """The begin of the step that a time is in."""
    seconds = f"unix_seconds({column})"
    return f"timestamp_seconds({seconds} - pmod({seconds}, {step_seconds}))"


def volumes(operations: "DataFrame", step_seconds: int) -> "DataFrame":
    """What stores did, by kind. What senders noted is there once more, as their
    namespace did it, so it does not count."""
    return (
        operations.where(_IS_OF_A_STORE)
        .groupBy(*_expressions(_at(step_seconds), *_WHERE, "operation", "result"))
        .agg(
            *_expressions(
                "sum(coalesce(amount, 1)) AS operations",
                "coalesce(sum(size_bytes), 0) AS bytes",
            )
        )
    )


def dead_letters(operations: "DataFrame", step_seconds: int) -> "DataFrame":
    """Messages that became dead letters, by reason."""
    keys = (_at(step_seconds), *_WHERE, _REASON)
    return (
        operations.where(_IS_DEAD_LETTER)
        .groupBy(*_expressions(*keys))
        .agg(
            *_expressions(
                "count(*) AS messages",
                "min(occurred_at) AS first_at",
                "max(occurred_at) AS last_at",
            )
        )
    )


def newest_dead_letters(operations: "DataFrame", count: int) -> "DataFrame":
    """The newest dead letters of each entity and reason."""
    order = "occurred_at DESC, source, batch, position"
    ranked = operations.where(_IS_DEAD_LETTER).selectExpr(
        *_WHERE,
        _REASON,
        "occurred_at",
        "source",
        "batch",
        "message_uid",
        "session_id",
        "sequence_number",
        "delivery_count",
        "row_number() OVER (PARTITION BY namespace, entity, coalesce(reason, '') "
        f"ORDER BY {order}) AS place",
    )
    return ranked.where(f"place <= {count}")


def rows_of_messages(operations: "DataFrame", uids: Sequence[str]) -> "DataFrame":
    """All rows about some messages: what their samples say about them."""
    from pyspark.sql.functions import col

    return operations.where(col("message_uid").isin(list(uids))).select(
        "source",
        "batch",
        "message_uid",
        "operation",
        "message_id",
        "delivery_count",
        "client",
    )


def fragments(operations: "DataFrame", step_seconds: int) -> "DataFrame":
    """Messages of each fragment, as they come and are delivered."""
    wanted = f"({_IS_ARRIVAL}) OR ({_IS_DELIVERY})"
    return (
        operations.where(f"result = 'ok' AND fragment IS NOT NULL AND ({wanted})")
        .where(_IS_OF_A_STORE)
        .groupBy(*_expressions(_at(step_seconds), *_WHERE, "fragment"))
        .agg(*_expressions(*_COMINGS_AND_GOINGS))
    )


def sessions(operations: "DataFrame", count: int) -> "DataFrame":
    """The busiest sessions of each entity, over the whole time."""
    wanted = f"({_IS_ARRIVAL}) OR ({_IS_DELIVERY})"
    counted = (
        operations.where(f"result = 'ok' AND session_id IS NOT NULL AND ({wanted})")
        .where(_IS_OF_A_STORE)
        .groupBy(*_WHERE, "session_id")
        .agg(*_expressions(*_COMINGS_AND_GOINGS))
    )
    order = "greatest(sent, delivered) DESC, session_id"
    return counted.selectExpr(
        "*",
        "CAST(row_number() OVER (PARTITION BY namespace, entity ORDER BY "
        f"{order}) AS INT) AS rank",
    ).where(f"rank <= {count}")


def latencies(
    operations: "DataFrame", detours: "DataFrame", since_sql: str, step_seconds: int
) -> "DataFrame":
    """Histograms of all measures; of what ended before `since_sql`, none.

    An age is the bus's own: it does not depend on when the log was written, and needs
    no second row. Only from delivery to completion two rows are brought together."""
    of_messages = _ends_of_messages(operations).selectExpr(
        *_WHERE, f"inline(array({', '.join(_OBSERVED)}))"
    )
    lag = "(unix_micros(restored_at) - unix_micros(diverted_at)) / 1000"
    of_detours = detours.selectExpr(
        "namespace",
        "path AS entity",
        "'restore_lag' AS measure",
        "restored_at AS at",
        f"CAST({lag} AS DOUBLE) AS ms",
    )
    observations = of_messages.unionByName(of_detours)
    at = f"{step_sql('at', step_seconds)} AS at"
    return (
        observations.where(f"ms IS NOT NULL AND at >= {since_sql}")
        .groupBy(*_expressions(at, "measure", *_WHERE, f"{BUCKET_SQL} AS bucket"))
        .agg(
            *_expressions(
                "count(*) AS messages",
                "min(ms) AS least_ms",
                "max(ms) AS greatest_ms",
            )
        )
    )


def _observed(measure: str, at: str, ms: str, *, is_backlog: bool = False) -> str:
    """What one message says about a measure; without `ms`, nothing."""
    where = _BACKLOG_PATH if is_backlog else f"NOT {_BACKLOG_PATH}"
    return (
        f"named_struct('measure', '{measure}', 'at', {at}, "
        f"'ms', CAST(CASE WHEN {where} THEN {ms} END AS DOUBLE))"
    )


_OBSERVED: Final = (
    _observed("send_to_deliver", "first.occurred_at", "first.age_ms"),
    _observed(
        "deliver_to_complete",
        "completed.occurred_at",
        "coalesce(completed.age_ms - last.age_ms, "
        "(unix_micros(completed.occurred_at) - unix_micros(last.occurred_at)) / 1000)",
    ),
    _observed("backlog_dwell", "ended.occurred_at", "ended.age_ms", is_backlog=True),
)


def _ends_of_messages(operations: "DataFrame") -> "DataFrame":
    """One row for each message of an entity: its first and last delivery, its end."""
    wanted = f"operation IN {_DELIVERIES} OR operation IN ('complete', 'delete')"
    return (
        operations.where(f"result = 'ok' AND subqueue IS NULL AND ({wanted})")
        .where(f"sequence_number IS NOT NULL AND {_IS_OF_A_STORE}")
        .groupBy(*_WHERE, "generation", "fragment", "sequence_number")
        .agg(
            *_expressions(
                f"{_moment('min', _DELIVERIES)} AS first",
                f"{_moment('max', _DELIVERIES)} AS last",
                f"""{_moment("max", "('complete')")} AS completed""",
                f"{_moment('max', _ENDS_IN_BACKLOG)} AS ended",
            )
        )
    )


def _moment(function: str, kinds: str) -> str:
    moment = "named_struct('occurred_at', occurred_at, 'age_ms', age_ms)"
    return f"{function}({moment}) FILTER (WHERE operation IN {kinds})"


def detours(operations: "DataFrame") -> "DataFrame":
    """Diverted messages: where they were meant to go, when they left and came back.

    The sender notes a detour, and the backlog queue a send; the message's uid says
    that they are one. When it is sent to the primary, it is back. A log of backlog
    queues alone does not tell where a message was meant to go."""
    known = operations.where("result = 'ok' AND message_uid IS NOT NULL")
    is_diverted = f"operation = 'divert' OR (operation IN {_SENDS} AND {_BACKLOG_PATH})"
    target = f"CASE WHEN {_BACKLOG_PATH} THEN destination ELSE entity END"
    diverted = (
        known.where(is_diverted)
        .groupBy("message_uid")
        .agg(
            *_expressions(f"max({target}) AS meant", "min(occurred_at) AS diverted_at")
        )
    )
    is_back = f"operation IN ('send', 'schedule', 'restore') AND NOT {_BACKLOG_PATH}"
    moment = (
        "named_struct('at', occurred_at, 'namespace', namespace, 'entity', entity, "
        "'operation', operation)"
    )
    back = (
        known.where(f"{is_back} AND {_IS_OF_A_STORE}")
        .join(diverted.select("message_uid"), "message_uid", "left_semi")
        .groupBy("message_uid")
        .agg(*_expressions(f"min({moment}) AS first"))
    )
    return diverted.join(back, "message_uid", "left").selectExpr(
        "message_uid",
        "coalesce(meant, first.entity) AS path",
        "first.namespace AS namespace",
        "diverted_at",
        "first.at AS restored_at",
        "first.operation AS restored_as",
    )


def restored(detours: "DataFrame", since_sql: str, step_seconds: int) -> "DataFrame":
    """Messages that came back, over time, and what the primary's log calls it."""
    at = f"{step_sql('restored_at', step_seconds)} AS at"
    return (
        detours.where(f"restored_at >= {since_sql}")
        .groupBy(*_expressions(at, "restored_as"))
        .agg(*_expressions("count(*) AS operations"))
    )


def outages(
    operations: "DataFrame", detours: "DataFrame", gap_seconds: int
) -> "DataFrame":
    """Spells of sends that failed or were diverted, for each entity.

    Rows of a second are added up first, so that a long outage is few rows; a row that
    comes later than the gap after the one before it begins a new spell."""
    diverted = detours.where("diverted_at IS NOT NULL").selectExpr(
        "path AS entity", "diverted_at AS at", "restored_at", "1 AS diverted"
    )
    failed = (
        operations.where(_IS_OF_A_SENDER)
        .where("operation = 'send' AND result IN ('failed', 'unknown')")
        .selectExpr(
            "entity", "occurred_at AS at", "CAST(NULL AS TIMESTAMP) AS restored_at"
        )
        .selectExpr("*", "0 AS diverted")
    )
    seconds = (
        diverted.unionByName(failed)
        .groupBy(*_expressions("entity", "unix_seconds(at) AS second"))
        .agg(
            *_expressions(
                "min(at) AS began_at",
                "min(at) FILTER (WHERE diverted = 1) AS failed_over_at",
                "max(at) AS last_at",
                "max(restored_at) AS drained_at",
                "count(*) - sum(diverted) AS failed",
                "sum(diverted) AS diverted",
                "count(restored_at) AS restored",
            )
        )
    )
    return _spells(seconds, gap_seconds)


def _spells(seconds: "DataFrame", gap_seconds: int) -> "DataFrame":
    order = "PARTITION BY entity ORDER BY second"
    return (
        seconds.selectExpr(
            "*", f"second - lag(second) OVER ({order}) > {gap_seconds} AS is_new"
        )
        .selectExpr("*", f"count_if(is_new) OVER ({order}) AS spell")
        .groupBy("entity", "spell")
        .agg(
            *_expressions(
                "min(began_at) AS began_at",
                "min(failed_over_at) AS failed_over_at",
                "max(last_at) AS last_at",
                "max(drained_at) AS drained_at",
                "sum(failed) AS failed",
                "sum(diverted) AS diverted",
                "sum(restored) AS restored",
            )
        )
    )


def returns(
    operations: "DataFrame", detours: "DataFrame", spells: "DataFrame"
) -> "DataFrame":
    """For each outage the first direct send that succeeded after it, and the pings
    until then. `spells` is small: it is sent to where the operations are."""
    from pyspark.sql.functions import broadcast

    bounds = broadcast(spells.select("entity", "spell", "began_at", "last_at"))
    sends = (
        operations.where("operation = 'send' AND result = 'ok'")
        .join(bounds, "entity")
        .where("occurred_at > last_at")
        .join(detours.select("message_uid"), "message_uid", "left_anti")
        .groupBy("entity", "spell")
        .agg(*_expressions("min(occurred_at) AS back_at"))
    )
    pings = (
        operations.where(_IS_BILLED_PING)
        .join(bounds, "entity")
        .join(broadcast(sends), ["entity", "spell"], "left")
        .where("occurred_at > began_at")
        .where("back_at IS NULL OR occurred_at <= back_at")
        .groupBy("entity", "spell")
        .agg(*_expressions("sum(coalesce(amount, 1)) AS pings"))
    )
    return sends.join(pings, ["entity", "spell"], "full")


_WHERE: Final = ("namespace", "entity")
_REASON: Final = "coalesce(reason, '') AS reason"
_COMINGS_AND_GOINGS: Final = (
    f"count_if({_IS_ARRIVAL}) AS sent",
    f"count_if({_IS_DELIVERY}) AS delivered",
    f"coalesce(sum(size_bytes) FILTER (WHERE {_IS_ARRIVAL}), 0) AS bytes",
)


def _at(step_seconds: int) -> str:
    return f"{step_sql('occurred_at', step_seconds)} AS at"


def _expressions(*texts: str) -> list["Column"]:
    from pyspark.sql.functions import expr

    return [expr(text) for text in texts]
