"""Rates are the difference of two looks."""

from typing import Any

from twinbus.cli.watching.bus_look import BusLook, EntityRow, entity_rows
from twinbus.cli.watching.bus_view import entity_lines, heading_lines, look_json

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
        "localhost:5672  3 connections  7 active",
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
