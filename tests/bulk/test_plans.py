"""Plans: what is read next, within limits, over one entity or many."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from wire.message import data_message

from twinbus.testing import Bus

from .caller import READER, Caller
from .sdk import Sdk, receive


def plan_of(
    call: Caller, paths: Sequence[str], firsts: Sequence[int] = (), **limits: Any
) -> list[dict[str, Any]]:
    """Over several entities, without a lease."""
    entities = [
        {
            **{"path": path, "generation": call.generation(path)},
            "from": {"0": first},
        }
        for path, first in zip(paths, firsts or [0] * len(paths), strict=True)
    ]
    fragments = call.post("plan", entities=entities, **limits)["fragments"]
    assert [part["path"] for part in fragments] == list(paths)
    return list(fragments)


def filled(bus: Bus, call: Caller, counts: dict[str, int]) -> list[str]:
    for path, count in counts.items():
        bus.create_queue(path)
        call.append((path, data_message(f"{path}-{n}")) for n in range(count))
    return list(counts)


# --- one entity ---------------------------------------------------------------


def test_all_there_is(call: Caller, sdk: Sdk, queue: str) -> None:
    sdk.send(queue, *"abc")
    planned = call.plan(queue)
    size = planned["bytes"]
    assert planned == {
        **{"path": queue, "fragment": 0, "from": 0, "to": 4, "messages": 3},
        **{"bytes": size, "splits": [[0, 4, 3, size]]},
    }
    assert size == call.fragment(queue)["size_bytes"]


def test_nothing_there(call: Caller, queue: str) -> None:
    for first in (0, 1, 77):
        planned = call.plan(queue, first=first)
        assert (planned["from"], planned["to"]) == (first, first)
        assert (planned["messages"], planned["splits"]) == (0, [])


def test_from_one_plan_to_the_next(call: Caller, sdk: Sdk, queue: str) -> None:
    sdk.send(queue, *"abcdefg")
    [epoch] = call.lease(queue)
    at, read = 0, []
    while True:
        planned = call.plan(queue, epoch=epoch, first=at, limits={"max_messages": 3})
        if not planned["messages"]:
            break
        bodies = call.bodies(queue, first=at, end=planned["to"])
        assert len(bodies) == planned["messages"]
        read += bodies
        at = planned["to"]
    assert read == list("abcdefg")
    assert call.settle(queue, epoch, to=at)["completed"] == 7


def test_limits_of_messages_and_bytes(call: Caller, queue: str) -> None:
    call.append((queue, data_message(b"x" * 1_000)) for _ in range(20))
    assert call.plan(queue, limits={"max_messages": 7})["messages"] == 7
    # The message that passes the limit is the last one.
    assert call.plan(queue, limits={"max_bytes": 1})["messages"] == 1
    assert call.plan(queue, limits={"max_bytes": 3_500})["messages"] == 4


def test_splits_are_neighbours(call: Caller, sdk: Sdk, queue: str) -> None:
    """Gaps belong to the split before them, and no number to two."""
    sdk.send(queue, *(str(number) for number in range(10)))
    receiver = sdk.receiver(queue)
    received = receive(receiver, 5)
    for message in received[2:]:
        receiver.complete_message(message)
    [epoch] = call.lease(queue)
    planned = call.plan(queue, epoch=epoch, limits={"split_messages": 3})
    assert [split[:3] for split in planned["splits"]] == [
        [0, 7, 3],
        [7, 10, 3],
        [10, 11, 1],
    ]
    assert sum(split[3] for split in planned["splits"]) == planned["bytes"]
    found = [
        call.bodies(queue, first=first, end=end)
        for first, end, _, _ in planned["splits"]
    ]
    assert found == [["0", "1", "5"], ["6", "7", "8"], ["9"]]


def test_bounds_by_number(call: Caller, sdk: Sdk, queue: str) -> None:
    sdk.send(queue, *"abcde")
    planned = call.plan(queue, first=2, to={"0": 4})
    assert (planned["from"], planned["to"], planned["messages"]) == (2, 4, 2)
    assert call.plan(queue, first=4, to={"0": 2})["messages"] == 0


def test_bounds_by_time(bus: Bus, call: Caller, sdk: Sdk, queue: str) -> None:
    began_at = bus.clock.now()
    for text in "abcd":
        sdk.send(queue, text)
        bus.advance(10)

    def found(**bounds: int) -> str:
        times = {name: began_at + 1000 * at for name, at in bounds.items()}
        planned = call.plan(queue, **times)
        rows = call.bodies(queue, first=planned["from"], end=planned["to"])
        assert len(rows) == planned["messages"]
        return "".join(rows)

    assert found(from_time=0) == "abcd"
    assert found(from_time=10) == "bcd"
    assert found(from_time=11) == "cd"
    assert found(to_time=10) == "a"
    assert found(from_time=10, to_time=30) == "bc"
    assert found(from_time=100) == ""
    assert found(to_time=0) == ""
    # The narrower bound counts.
    later = call.plan(queue, first=4, from_time=began_at)
    assert later["messages"] == 1


def test_another_life_is_told(bus: Bus, call: Caller, sdk: Sdk, queue: str) -> None:
    old = call.generation(queue)
    bus.delete_queue(queue)
    bus.create_queue(queue)
    sdk.send(queue, "new")
    for entity in (
        {"path": queue, "generation": old},
        {"path": queue, "generation": "x"},
    ):
        answer = call.ask("plan", {"entities": [entity]})
        assert answer.refusal == (404, "amqp:not-found")
        assert "deleted and made again" in answer.error["message"]


def test_under_a_lease_an_epoch_is_shown(call: Caller, sdk: Sdk, queue: str) -> None:
    sdk.send(queue, "a")
    [old], [epoch] = call.lease(queue), call.lease(queue)
    entity = {"path": queue, "generation": call.generation(queue)}
    for reader, shown in ((READER, old), ("reader-2", epoch), (READER, "x")):
        content = {"reader": reader, "entities": [{**entity, "epoch": shown}]}
        answer = call.ask("plan", content)
        assert answer.refusal == (410, "twinbus:reader-lease-lost")
    assert call.plan(queue, epoch=epoch)["messages"] == 1


def test_who_only_looks_needs_no_lease(call: Caller, sdk: Sdk, queue: str) -> None:
    """And disturbs nobody: the reader's plan is what it was."""
    sdk.send(queue, *"ab")
    [epoch] = call.lease(queue)
    call.plan(queue, epoch=epoch, limits={"max_messages": 1})
    assert call.plan(queue, reader="looker")["messages"] == 2
    assert call.settle(queue, epoch, to=3)["completed"] == 1


def test_messages_that_are_not_active_are_not_planned(
    bus: Bus, call: Caller, sdk: Sdk, queue: str
) -> None:
    sdk.send(queue, "deferred", "active")
    sdk.schedule(queue, "later", bus.now() + timedelta(seconds=30))
    receiver = sdk.receiver(queue)
    receiver.defer_message(receive(receiver, 2)[0])
    call.lease(queue)
    assert call.plan(queue)["messages"] == 1
    bus.advance(31)
    # Activated, it is numbered anew.
    planned = call.plan(queue)
    assert (planned["messages"], call.bodies(queue)[-1]) == (2, "later")


# --- several ------------------------------------------------------------------


def test_fair_shares(bus: Bus, call: Caller) -> None:
    """Of the limit what a backlog is of all, and one message at least."""
    paths = filled(bus, call, {"large": 600, "small": 300, "tiny": 1, "empty": 0})
    planned = plan_of(call, paths, max_messages=90)
    assert [part["messages"] for part in planned] == [59, 29, 1, 0]
    planned = plan_of(call, paths, max_messages=10_000)
    assert [part["messages"] for part in planned] == [600, 300, 1, 0]


def test_fair_shares_of_bytes(bus: Bus, call: Caller) -> None:
    paths = filled(bus, call, {"large": 300, "small": 100})
    size = call.fragment("small")["size_bytes"]
    planned = plan_of(call, paths, max_bytes=size)
    assert planned[0]["bytes"] == pytest.approx(0.75 * size, rel=0.1)
    assert planned[1]["bytes"] == pytest.approx(0.25 * size, rel=0.1)


def test_aligned_to_one_instant(bus: Bus, call: Caller, sdk: Sdk) -> None:
    """What was sent to one queue and then to another is never planned the other way
    round, however unequal they are."""
    paths = ["a", "b", "c"]
    for path in paths:
        bus.create_queue(path)
    sent: list[str] = []
    for number in range(30):
        path = paths[(number * number) % 3]
        sdk.send(path, f"{number:02}")
        sent.append(f"{number:02}")
        bus.advance(1)
    read: list[str] = []
    firsts = [0, 0, 0]
    while len(read) < len(sent):
        planned = plan_of(call, paths, firsts, max_messages=7, aligned=True)
        batch: list[str] = []
        for path, part in zip(paths, planned, strict=True):
            batch += call.bodies(path, first=part["from"], end=part["to"])
        assert len(batch) == min(7, len(sent) - len(read))
        read += sorted(batch)
        firsts = [part["to"] for part in planned]
    assert read == sent


def test_an_instant_is_planned_whole(bus: Bus, call: Caller) -> None:
    """Messages of one millisecond are parted by no plan."""
    paths = filled(bus, call, {"a": 5, "b": 5})
    bus.advance(1)
    call.append([("a", data_message("later"))])
    bus.advance(1)
    planned = plan_of(call, paths, max_messages=3, aligned=True)
    assert [part["messages"] for part in planned] == [5, 5]


def test_what_is_sent_in_this_instant_waits(bus: Bus, call: Caller) -> None:
    """More may come with the same time, to a queue that was looked at already."""
    paths = filled(bus, call, {"a": 1, "b": 1})
    planned = plan_of(call, paths, aligned=True)
    assert [part["messages"] for part in planned] == [0, 0]
    bus.advance(1)
    planned = plan_of(call, paths, aligned=True)
    assert [part["messages"] for part in planned] == [1, 1]


def test_of_no_entities(call: Caller) -> None:
    assert call.post("plan", entities=[]) == {"fragments": []}
    assert call.post("plan", entities=[], aligned=True) == {"fragments": []}
