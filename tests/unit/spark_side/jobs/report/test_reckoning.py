"""Tables of a report, from what Spark has reduced."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow
import pytest

from twinbus.spark.jobs.report import reckoning, tables

AT = datetime(2026, 11, 1, 10, tzinfo=UTC)
HERE = {"namespace": "site-a", "entity": "orders"}


def arrow(rows: list[dict[str, Any]]) -> Any:
    return pyarrow.Table.from_pylist(rows)


@pytest.mark.parametrize(
    ("seconds", "step"),
    [(0, 1), (150, 1), (151, 5), (3_600, 30), (86_400, 900), (30 * 86_400, 21_600)],
)
def test_steps_suit_the_length(seconds: int, step: int) -> None:
    assert reckoning.step_for(seconds) == step


def test_the_longest_report_has_steps_of_a_day() -> None:
    assert reckoning.step_for(10 * 365 * 86_400) == 86_400


def test_steps_add_up_to_hours() -> None:
    reduced = arrow(
        [
            {
                **HERE,
                "at": AT + timedelta(minutes=minute),
                "operation": "send",
                "result": "ok",
                "operations": 2,
                "bytes": 10,
            }
            for minute in (0, 30, 60)
        ]
    )
    hours = reckoning.hours_of(tables.VOLUMES, reduced).to_pylist()
    assert [(row["hour_start"], row["operations"], row["bytes"]) for row in hours] == [
        (AT, 4, 20),
        (AT + timedelta(hours=1), 2, 10),
    ]


def test_hours_of_histograms_keep_the_extremes() -> None:
    reduced = arrow(
        [
            {
                **HERE,
                "at": AT + timedelta(minutes=minute),
                "measure": "send_to_deliver",
                "bucket": 5,
                "messages": 1,
                "least_ms": float(minute),
                "greatest_ms": float(minute + 1),
            }
            for minute in (1, 2)
        ]
    )
    [row] = reckoning.hours_of(tables.LATENCIES, reduced).to_pylist()
    assert (row["messages"], row["least_ms"], row["greatest_ms"]) == (2, 1.0, 3.0)


@pytest.mark.parametrize(
    ("operation", "entity", "result", "what"),
    [
        ("send", "orders", "ok", "sent"),
        ("send", "orders", "refused", "refused"),
        ("send", "orders", "unknown", None),
        ("send", "site-a/x-servicebus-transfer/3", "ok", "diverted"),
        ("lock", "site-a/x-servicebus-transfer/3", "ok", None),
        ("lock", "orders", "ok", "delivered"),
        ("restore", "orders", "ok", "restored"),
        ("peek", None, "ok", None),
    ],
)
def test_backlog_queues_count_apart(
    operation: str, entity: str | None, result: str, what: str | None
) -> None:
    row = {"at": AT, "operation": operation, "entity": entity, "result": result}
    volumes = arrow([{**row, "operations": 3}])
    found = reckoning.course(volumes, pyarrow.table({}), 60).to_pylist()
    assert [item["what"] for item in found] == ([what] if what else [])


def test_what_a_syphon_sends_is_restored() -> None:
    sent = {"at": AT, "operation": "send", "entity": "orders", "result": "ok"}
    volumes = arrow([{**sent, "operations": 5}])
    back = arrow([{"at": AT, "restored_as": "send", "operations": 2}])
    found = reckoning.course(volumes, back, 60).to_pylist()
    assert [(row["what"], row["operations"]) for row in found] == [
        ("restored", 2),
        ("sent", 3),
    ]


def test_skew_is_the_fullest_by_the_mean() -> None:
    loads = [(0, 10), (1, 30), (2, 10), (3, 10)]
    rows = [{**HERE, "fragment": n, "sent": sent} for n, sent in loads]
    alone = {"namespace": "site-a", "entity": "alone", "fragment": 0, "sent": 5}
    [row] = reckoning.skew(arrow([*rows, alone])).to_pylist()
    assert (row["entity"], row["fullest_fragment"], row["skew"]) == ("orders", 1, 2.0)


def test_an_outage_is_drained_when_all_are_back() -> None:
    spell = {
        "entity": "orders",
        "spell": 0,
        "began_at": AT,
        "failed_over_at": AT,
        "last_at": AT,
        "drained_at": AT,
        "failed": 0,
        "diverted": 2,
        "restored": 1,
    }
    [row] = reckoning.outages(arrow([spell]), []).to_pylist()
    assert (row["drained_at"], row["back_at"], row["pings"]) == (None, None, 0)
    [row] = reckoning.outages(arrow([{**spell, "restored": 2}]), []).to_pylist()
    assert row["drained_at"] == AT
