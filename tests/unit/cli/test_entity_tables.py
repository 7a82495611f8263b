"""The tables of entities that users see."""

from typing import Any

import pytest

from twinbus.cli.entity_tables import print_entity, print_list, readable_size

ENTITY: dict[str, Any] = {
    "path": "sales/[red]eu",
    "kind": "queue",
    "properties": {
        "lock_duration_ms": 90_000,
        "default_message_time_to_live_ms": 0,
        "dead_lettering_on_message_expiration": True,
        "max_message_size_in_kilobytes": 0,
        "status": "Active",
        "user_metadata": "[bold]",
        "authorization_rules": [
            {"key_name": "worker", "rights": ["Send", "Listen"]},
            {"key_name": "boss", "rights": ["Manage"]},
        ],
    },
    "created_at": 1_767_225_600_000,
    "updated_at": 1_767_225_661_000,
    "counts": {"active": 12, "deferred": 3, "scheduled": 4, "dead_letter": 5},
    "size_bytes": 1_536,
    "reader_leases": [],
}


def rows(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_an_entity_is_shown_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    print_entity(ENTITY)
    assert rows(capsys.readouterr().out) == [
        "name sales/[red]eu",
        "kind queue",
        "lock_duration 1m30s",
        "default_message_time_to_live unlimited",
        "dead_lettering_on_message_expiration yes",
        "max_message_size_in_kilobytes the namespace's limit",
        "status Active",
        "user_metadata [bold]",
        "authorization_rules worker (Send, Listen); boss (Manage)",
        "active messages 12",
        "deferred messages 3",
        "scheduled messages 4",
        "dead_letter messages 5",
        "size 1.5 KB",
        "created 2026-01-01 00:00:00+00:00",
        "updated 2026-01-01 00:01:01+00:00",
    ]


def test_a_list_has_a_line_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    print_list([ENTITY, {**ENTITY, "path": "x" * 260}])
    assert rows(capsys.readouterr().out) == [
        "name kind status active scheduled deferred dead-letter size",
        "sales/[red]eu queue Active 12 4 3 5 1.5 KB",
        f"{'x' * 260} queue Active 12 4 3 5 1.5 KB",
    ]


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_023, "0.999 KB"),
        (1_048_576, "1 MB"),
        (5 << 30, "5 GB"),
        (3 << 40, "3 TB"),
    ],
)
def test_sizes_have_three_digits_at_most(size_bytes: int, text: str) -> None:
    assert readable_size(size_bytes) == text


def test_backlog_queue_is_shown_as_what_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = "away[1]/x-servicebus-transfer/0"
    print_list([{**ENTITY, "path": path}])
    print_list([{**ENTITY, "path": path, "kind": "topic"}])
    print_entity({**ENTITY, "path": path})
    shown = rows(capsys.readouterr().out)
    assert shown[1] == f"{path} backlog of away[1] Active 12 4 3 5 1.5 KB"
    assert shown[3] == f"{path} topic Active 12 4 3 5 1.5 KB"
    assert shown[5] == "kind backlog of away[1]"


def test_fragments_are_shown_with_their_state_and_bounds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fragment = {
        **{"index": 1, "store": "ab12", "state": "unavailable", "active_count": 3},
        **{"deferred_count": 0, "scheduled_count": 2, "size_bytes": 2048},
        **{"first": None, "next": 281474976710660},
    }
    serving = {**fragment, "index": 2, "state": "serving", "first": 7, "next": 9}
    print_entity({**ENTITY, "fragments": [fragment, serving]})
    shown = capsys.readouterr().out
    assert "fragment 1" in shown
    assert "unavailable, 3 active, 0 deferred, 2 scheduled, 2 KB" in shown
    assert "next number 281474976710660, store ab12" in shown
    assert "7 to 9, store ab12" in shown
