"""Bulk requests on a partitioned queue, whose fragments are in three stores."""

from collections.abc import Iterator
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage
from partitions.stores import owner_of_fragment, store_away

from twinbus.fragments.hashing import fragment_index
from twinbus.testing import Bus

from .caller import READER, Caller
from .sdk import ARRIVAL_SECONDS, QUIET_SECONDS, Sdk, texts_of

FRAGMENTS = 4
SETTINGS = {"fragments": FRAGMENTS, "allow_faults": True}
PLACES = [0, 0, 0, 1, 2, 2]
"""The fragments of the messages that each test finds."""


def key_in(index: int) -> str:
    keys = (f"key {number}" for number in range(1_000))
    return next(key for key in keys if fragment_index(key, FRAGMENTS) == index)


@pytest.fixture
def bus() -> Iterator[Bus]:
    with Bus(stores=3, settings=SETTINGS) as started:
        started.create_queue("orders", enable_partitioning=True)
        yield started


@pytest.fixture
def filled(sdk: Sdk) -> str:
    for number, index in enumerate(PLACES):
        message = ServiceBusMessage(f"m{number}", partition_key=key_in(index))
        sdk.send("orders", message)
    return "orders"


def fragments(call: Caller, path: str = "orders") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = call.runtime(path)["fragments"]
    return found


def planned(call: Caller, epoch: str | None = None) -> list[dict[str, Any]]:
    entity = {"path": "orders", "generation": call.generation("orders")}
    if epoch is not None:
        entity["epoch"] = epoch
    answer = call.post("plan", reader=READER, entities=[entity])
    found: list[dict[str, Any]] = answer["fragments"]
    return found


def test_runtime_has_every_fragment_and_its_store(
    bus: Bus, call: Caller, filled: str
) -> None:
    found = fragments(call)
    assert [one["index"] for one in found] == [0, 1, 2, 3]
    assert [one["active_count"] for one in found] == [3, 1, 2, 0]
    assert [one["next"] >> 48 for one in found] == [0, 1, 2, 3]
    stores = {owner.store_uuid.hex() for owner in bus.server.owners}
    assert {one["store"] for one in found} == stores and len(stores) == 3


def test_plan_and_browse_reach_every_fragment(call: Caller, filled: str) -> None:
    rows: list[dict[str, Any]] = []
    for part in planned(call):
        for first, end, *_ in part["splits"]:
            rows += call.rows(
                filled,
                first=first,
                end=end,
                fragment=part["fragment"],
                columns=["partition", "sequence_number", "body"],
            )
    assert [row["body"].decode() for row in rows] == [f"m{n}" for n in range(6)]
    assert [row["partition"] for row in rows] == PLACES
    assert [row["sequence_number"] >> 48 for row in rows] == PLACES


def test_lease_and_settlement_cover_all_fragments(
    call: Caller, sdk: Sdk, filled: str
) -> None:
    receiver = sdk.receiver(filled)
    [epoch] = call.lease(filled)
    assert {one["lease"]["epoch"] for one in fragments(call)} == {epoch}
    assert receiver.receive_messages(10, max_wait_time=QUIET_SECONDS) == []
    ends = {str(part["fragment"]): part["to"] for part in planned(call, epoch)}
    settled = call.settle(filled, epoch, to=ends)
    assert settled["completed"] == len(PLACES)
    assert [one["active_count"] for one in fragments(call)] == [0] * FRAGMENTS
    entities = [{"path": filled, "epoch": epoch}]
    answer = call.post("lease", reader=READER, entities=entities, release=True)
    assert answer["released"] == 1
    sdk.send(filled, "after")
    found = receiver.receive_messages(10, max_wait_time=ARRIVAL_SECONDS)
    assert texts_of(found) == ["after"]


def test_dead_letters_are_in_the_fragments_of_their_messages(
    call: Caller, filled: str
) -> None:
    [epoch] = call.lease(filled)
    numbers = [part["from"] for part in planned(call, epoch)]
    firsts = [one["first"] for one in fragments(call) if one["first"] is not None]
    assert [number >> 48 for number in numbers] == [0, 1, 2, 3]
    poison = [
        {"sequence_number": number, "reason": "r", "description": "d"}
        for number in firsts
    ]
    settled = call.settle(filled, epoch, dead_letter=poison)
    assert settled["dead_lettered"] == 3
    dead = fragments(call, f"{filled}/$DeadLetterQueue")
    assert [one["active_count"] for one in dead] == [1, 1, 1, 0]


def test_fragment_that_is_away_is_named_and_waited_for(
    bus: Bus, call: Caller, filled: str
) -> None:
    entity = {"path": filled, "generation": call.generation(filled)}
    first = {**entity, "fragment": 0, "from": 0, "to": 1000}
    second = {**entity, "fragment": 1, "from": 1 << 48, "to": (1 << 48) + 9}
    lease = {"reader": READER, "duration_ms": 60_000, "entities": [{"path": filled}]}
    with store_away(bus, owner_of_fragment(bus, filled, 1)):
        for answer in (
            call.ask("runtime", {"entities": [filled]}),
            call.ask("plan", {"entities": [entity]}),
            call.ask("lease", lease),
            call.ask("browse", second),
        ):
            assert answer.refusal == (503, "server-busy")
            assert answer.error["retryable"]
            assert answer.error["entity"] == filled
            assert "Fragment 1 of 'orders'" in answer.error["message"]
        # Those in other stores can be read meanwhile.
        assert len(call.ask("browse", first).table) == 3
    assert [one["active_count"] for one in fragments(call)] == [3, 1, 2, 0]
    assert call.lease(filled)
