"""Rates are the difference of two looks."""

from typing import Any

import pytest

from twinbus.cli.watching.bus_look import (
    BusLook,
    EntityRow,
    entity_rows,
)
from twinbus.cli.watching.bus_view import (
    busiest,
    entity_lines,
    fitting_lines,
    heading_lines,
    look_json,
)

BACKLOG = "site-a/x-servicebus-transfer/0"


def entity(path: str, active: int, enqueued: int, **more: Any) -> dict[str, Any]:
    counts = {"active": active, "deferred": 0, "scheduled": 0, "dead_letter": 2}
    return {
        "path": path,
        "kind": "queue",
        "properties": {"status": "Active"},
        "created_at": 1,
        "counts": counts,
        "size_bytes": 10,
        "enqueued_count": enqueued,
        "reader_leases": [],
        **more,
    }


def rows(before: list[dict[str, Any]], now: list[dict[str, Any]]) -> list[EntityRow]:
    return entity_rows(
        BusLook(taken_at=12_000, entities=now),
        BusLook(taken_at=10_000, entities=before),
    )


def test_what_came_and_what_left_in_a_second() -> None:
    [row] = rows([entity("orders", 100, 1_000)], [entity("orders", 60, 1_020)])
    assert (row.in_per_second, row.out_per_second) == (10.0, 30.0)


def test_topic_keeps_nothing() -> None:
    topic = {"kind": "topic"}
    [row] = rows([entity("events", 0, 5, **topic)], [entity("events", 0, 9, **topic)])
    assert (row.in_per_second, row.out_per_second) == (2.0, 2.0)


def test_entity_that_is_new_has_no_rates() -> None:
    [row] = rows([], [entity("orders", 60, 1_020)])
    assert (row.in_per_second, row.out_per_second) == (None, None)
    again = entity("orders", 1, 1, created_at=2)
    [row] = rows([entity("orders", 60, 1_020)], [again])
    assert row.in_per_second is None


def test_whole_bus_is_told_above_the_table() -> None:
    now = BusLook(
        taken_at=1_000,
        entities=[entity(BACKLOG, 7, 7)],
        metrics={
            "twinbus_connections": [({}, 3.0)],
            "twinbus_broker_alive": [({"broker": "b1", "address": "h:1"}, 1.0)],
            "twinbus_store_state": [
                ({"store": "s", "state": "serving"}, 0.0),
                ({"store": "s", "state": "unavailable"}, 1.0),
            ],
            "twinbus_pair_syphon_running": [({}, 1.0)],
            "twinbus_pair_primary_reachable": [({}, 0.0)],
        },
    )
    found = entity_rows(now, None)
    told = [str(line) for line in heading_lines(now, found, "localhost:5672")]
    assert told == [
        "localhost:5672  3 connections  7 active  2 dead",
        "brokers: b1",
        "store s: unavailable",
        "backlog of site-a: 7 messages, 2 dead letters",
        "pair: the syphon runs, the primary does not answer",
    ]
    shown = look_json(now, found)
    assert shown["backlogs"] == [
        {"primary": "site-a", "messages": 7, "dead_letters": 2}
    ]
    assert shown["stores"] == [{"store": "s", "state": "unavailable", "broker": ""}]


def test_table_of_a_terminal_has_its_width() -> None:
    many = [entity(f"queue-{number}", 10**6, 10**7) for number in range(3)]
    found = rows(many, many)
    for is_short in (True, False):
        lines = entity_lines(found, 80, is_short=is_short)
        assert max(len(line) for line in lines) <= 80


def test_status_is_shown_where_it_is_unusual() -> None:
    one, other = entity("orders", 1, 1), entity("archive", 1, 1)
    [first, *_] = entity_lines(rows([], [one, other]), 80, is_short=True)
    assert "status" not in first.plain
    other["properties"] = {"status": "SendDisabled"}
    lines = entity_lines(rows([], [one, other]), 80, is_short=True)
    assert ["status" in lines[0].plain, "SendDisabled" in lines[2].plain] == [True] * 2
    assert "Active" not in lines[1].plain


@pytest.mark.parametrize(("width", "height"), [(80, 20), (40, 20), (30, 9), (200, 3)])
def test_what_is_shown_fits_the_terminal(width: int, height: int) -> None:
    long = "a-name-that-is-long/" * 5
    many = [entity(f"{long}{number}", number, 1) for number in range(300)]
    lines = fitting_lines(rows([], many), width, height)
    taken = sum(-(-len(line) // width) for line in lines)
    assert taken <= height or len(lines) <= 8
    shown = sum(long in line.plain for line in lines)
    assert shown >= 1
    assert lines[-1].plain == f"and {300 - shown} more"
    assert f"{long}299" in "".join(line.plain for line in lines)


def test_busiest_are_those_that_move_messages() -> None:
    before = [entity("deep", 500, 0), entity("busy", 0, 0), entity("idle", 3, 0)]
    now = [entity("deep", 500, 0), entity("busy", 0, 200), entity("idle", 3, 0)]
    assert [row.path for row in busiest(rows(before, now), 2)] == ["busy", "deep"]
