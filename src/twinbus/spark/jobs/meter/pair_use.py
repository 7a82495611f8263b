"""What the logs show of a pair: idle polls, pings, diverted messages, outages."""

from typing import TYPE_CHECKING, Any, Final

from twinbus.spark.jobs.meter.pair_costs import EntityOutage, PairUse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_IS_BACKLOG: Final = "coalesce(contains(entity, '/x-servicebus-transfer/'), false)"
_IS_DIVERT: Final = (
    f"is_store AND result = 'ok' AND {_IS_BACKLOG} AND kind IN "
    "('divert', 'send', 'schedule')"
)
_IS_RESTORE: Final = (
    f"is_store AND result = 'ok' AND NOT {_IS_BACKLOG} AND (kind = 'restore' "
    "OR (kind = 'send' AND coalesce(purpose = 'syphon', false)))"
)
_TOTALS: Final = {
    "backlog_queues": f"count(DISTINCT IF({_IS_BACKLOG}, entity, NULL))",
    "idle_receives": (
        f"sum(IF(is_store AND {_IS_BACKLOG} AND kind = 'receive_empty', "
        "interactions, 0L))"
    ),
    "administration": (
        "sum(IF(is_store AND kind = 'administration' AND purpose = 'syphon', "
        "interactions, 0L))"
    ),
    "diverted": f"sum(IF({_IS_DIVERT}, rows, 0L))",
    "restored": f"sum(IF({_IS_RESTORE}, rows, 0L))",
    "diverted_bytes": f"sum(IF({_IS_DIVERT}, bytes, 0L))",
    "first_at": "min(first_at)",
    "last_at": "max(last_at)",
}


def pair_use(groups: "DataFrame") -> PairUse | None:
    """From the groups of `hourly_use.py`; None if there is no sign of a pair. Hours are
    those of the whole log."""
    from pyspark.sql import functions as F

    found = groups.agg(*(F.expr(text).alias(name) for name, text in _TOTALS.items()))
    totals = found.first()
    if totals is None or totals["first_at"] is None:
        return None
    outages = _outages(groups)
    numbers = {name: int(totals[name] or 0) for name in _TOTALS}
    if not numbers["backlog_queues"] and not outages:
        return None
    return PairUse(
        hours=(numbers["last_at"] - numbers["first_at"]) / 3_600_000_000,
        backlog_queues=numbers["backlog_queues"],
        idle_receives=numbers["idle_receives"],
        administration=numbers["administration"],
        diverted=numbers["diverted"],
        restored=numbers["restored"],
        mean_size_bytes=numbers["diverted_bytes"] // max(numbers["diverted"], 1),
        outages=outages,
    )


def _outages(groups: "DataFrame") -> tuple[EntityOutage, ...]:
    """Of each entity, all its outages together: pings, and diverts that senders noted.

    A client has one name in its own log and another in the store's, so clients are
    counted in one kind of log: in those of senders, if they have any pings."""
    from pyspark.sql import functions as F

    is_ping = "kind = 'ping' AND (is_store OR result IN ('failed', 'unknown'))"
    is_sign = "kind = 'ping' OR (NOT is_store AND kind = 'divert' AND result = 'ok')"
    is_divert = "kind = 'divert'"
    signs = groups.where(is_sign).groupBy("entity")
    counted = signs.agg(
        F.expr(f"sum(IF({is_ping}, interactions, 0L))").alias("pings"),
        F.expr(
            "coalesce(nullif(count(DISTINCT IF(is_store, NULL, pinger)), 0), "
            "count(DISTINCT pinger))"
        ).alias("clients"),
        F.expr("(max(last_at) - min(first_at)) / 1e6").alias("seconds"),
        F.expr(f"sum(IF({is_divert}, rows, 0L))").alias("diverted"),
    )
    return tuple(_outage(row) for row in counted.orderBy("entity").collect())


def _outage(row: Any) -> EntityOutage:
    return EntityOutage(
        entity=row["entity"],
        pings=int(row["pings"]),
        clients=int(row["clients"]),
        seconds=float(row["seconds"]),
        diverted=int(row["diverted"]),
    )
