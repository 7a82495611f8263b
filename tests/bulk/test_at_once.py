"""Concurrency: tasks read splits while clients send and entities are deleted."""

import http.client
import json
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from wire.message import data_message

from twinbus.testing import Bus

from .caller import READER, Caller, append_body, token_of

COUNT = 3_000


def with_own_connection(bus: Bus, act: Callable[[Caller], Any]) -> Any:
    caller = Caller(bus.port, token_of(bus, seconds=36_000))
    try:
        return act(caller)
    finally:
        caller.close()


def test_splits_are_read_side_by_side_while_messages_come(
    bus: Bus, call: Caller, queue: str
) -> None:
    """Together they have every planned message once, however often they are read."""
    call.append((queue, data_message(str(number))) for number in range(COUNT))
    [epoch] = call.lease(queue)
    planned = call.plan(queue, epoch=epoch, limits={"split_messages": 400})

    def read(split: list[int]) -> list[str]:
        first, end, count, _ = split
        bodies = with_own_connection(
            bus, lambda own: own.bodies(queue, first=first, end=end, max_bytes=9_000)
        )
        assert len(bodies) == count
        return list(bodies)

    def send(number: int) -> int:
        rows = [(queue, data_message(f"later {number}"))] * 100
        answer = with_own_connection(bus, lambda own: own.append(rows))
        return int(answer["applied"])

    with ThreadPoolExecutor(8) as pool:
        sending = [pool.submit(send, number) for number in range(10)]
        for _ in range(2):
            parts = pool.map(read, planned["splits"])
            found = [body for part in parts for body in part]
            assert found == [str(number) for number in range(COUNT)]
        assert [future.result() for future in sending] == [100] * 10
    assert call.settle(queue, epoch, to=planned["to"])["completed"] == COUNT
    assert call.fragment(queue)["active_count"] == 1_000


def test_two_who_take_a_lease_at_the_same_time(bus: Bus, call: Caller) -> None:
    """One of them has all of it."""
    paths = [f"q-{number}" for number in range(20)]
    for path in paths:
        bus.create_queue(path)

    def take(reader: str) -> int:
        entities = [{"path": path} for path in paths]
        content = {"reader": reader, "duration_ms": 60_000, "entities": entities}
        return int(
            with_own_connection(bus, lambda own: own.ask("lease", content).status)
        )

    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(take, [f"reader-{n}" for n in range(8)]))
    assert sorted(statuses) == [200] + [409] * 7
    holders = {call.fragment(path)["lease"]["reader"] for path in paths}
    assert holders == {f"reader-{statuses.index(200)}"}


def test_settlements_at_the_same_time_count_once(
    bus: Bus, call: Caller, queue: str
) -> None:
    """A request whose answer was lost is repeated while the first goes on."""
    call.append((queue, data_message(str(number))) for number in range(COUNT))
    [epoch] = call.lease(queue)
    end = call.plan(queue, epoch=epoch)["to"]

    def settle(_: int) -> int:
        settled = with_own_connection(bus, lambda own: own.settle(queue, epoch, to=end))
        return int(settled["completed"])

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(settle, range(4))) == COUNT
    found = call.fragment(queue)
    assert (found["active_count"], found["size_bytes"]) == (0, 0)


@pytest.mark.parametrize("name", ["plan", "browse", "settle", "append"])
def test_an_entity_that_vanishes_meanwhile(
    bus: Bus, call: Caller, queue: str, name: str
) -> None:
    """Told as what it is; the bus has no bug to report."""
    rows = append_body((queue, data_message(str(n))) for n in range(COUNT))
    call.ask("append", rows)
    [epoch] = call.lease(queue)
    call.plan(queue, epoch=epoch)
    generation = call.generation(queue)
    entity = {"path": queue, "epoch": epoch}
    content: Any = {
        "plan": {
            "reader": READER,
            "entities": [{**entity, "generation": generation}],
        },
        "browse": {
            **{"path": queue, "generation": generation},
            **{"from": 0, "to": COUNT + 1},
        },
        "settle": {
            "reader": READER,
            "entities": [{**entity, "to": {"0": COUNT + 1}}],
        },
        "append": rows,
    }[name]
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(
            with_own_connection, bus, lambda own: own.ask(name, content)
        )
        bus.delete_queue(queue)
        answer = asked.result()
    if name == "append" and answer.status == 200:
        conditions = {row["condition"] for row in answer.json["refused"]}
        assert conditions <= {"amqp:not-found"}
    else:
        assert answer.status in (200, 404, 410), answer.body


def test_over_tls() -> None:
    with Bus(tls=True) as bus:
        context = ssl.create_default_context(cafile=str(bus.ca_file))
        connection = http.client.HTTPSConnection(
            "localhost", bus.port, context=context, timeout=60
        )
        connection.request("GET", "/$bulk", headers={"authorization": token_of(bus)})
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())["version"]) == (200, 1)
        connection.close()
