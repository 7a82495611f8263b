"""Bulk requests for what several brokers own, asked from any of them."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from bulk.caller import READER, Answer, Caller, append_body
from wire.message import data_message

from twinbus.auth import sas
from twinbus.config.config import ROOT_KEY_NAME
from twinbus.fragments.hashing import fragment_index

from .conftest import WIDE
from .greeted import greeted
from .processes import PATIENCE_SECONDS, Brokers, as_json, until

FRAGMENTS = 16
HOUR_MS = 3_600_000


class PatientCaller(Caller):
    """Asks again while brokers do not agree who has which store."""

    def ask(self, name: str, content: Any, token: str | None = None) -> Answer:
        ends_at = time.monotonic() + PATIENCE_SECONDS
        while True:
            answer = super().ask(name, content, token)
            if answer.status != 503 or time.monotonic() > ends_at:
                return answer
            time.sleep(0.1)


@pytest.fixture
def calls(trio: Brokers) -> Iterator[dict[str, Caller]]:
    """A client of each broker."""
    with clients(trio) as made:
        yield made


@contextmanager
def clients(brokers: Brokers) -> Iterator[dict[str, Caller]]:
    """At the brokers' own addresses: at the shared one any of them answers."""
    alive = asyncio.run(brokers.alive())
    made: dict[str, Caller] = {
        name: PatientCaller(_port(alive[name].address), _token(brokers))
        for name in sorted(alive)
    }
    yield made
    for call in made.values():
        call.close()


def queues(brokers: Brokers, prefix: str) -> tuple[str, str, str]:
    """A new queue at each of three brokers."""
    paths = (f"{prefix}1", f"{prefix}2", f"{prefix}3")

    async def make() -> None:
        for path in paths:
            await brokers.make(path[-1], "queue", path)

    asyncio.run(make())
    return paths


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


def _token(
    brokers: Brokers, resource: str = "", *, key_name: str = "", key: str = ""
) -> str:
    return sas.make(
        resource=f"http://localhost/{resource}",
        key_name=key_name or ROOT_KEY_NAME,
        key=key or brokers.root_key,
        expires_at=int(time.time() * 1000) + HOUR_MS,
    )


def keyed(text: str) -> bytes:
    """A message whose body is its partition key."""
    return data_message(text, annotations={"x-opt-partition-key": text})


def texts_of(count: int, prefix: str = "m") -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def fill(call: Caller, path: str, texts: list[str]) -> None:
    answer = call.append((path, keyed(text)) for text in texts)
    assert answer == {"applied": len(texts), "known": [], "refused": []}


def planned_of(call: Caller, path: str, epoch: str | None = None, **more: Any) -> Any:
    """All fragments of the plan."""
    entity = {"path": path, "generation": call.generation(path)}
    if epoch is not None:
        entity["epoch"] = epoch
    answer = call.post("plan", reader=READER, entities=[entity], **more)
    return answer["fragments"]


def read(call: Caller, planned: list[dict[str, Any]]) -> list[str]:
    """The bodies of what was planned."""
    return [
        body
        for part in planned
        for body in call.bodies(
            part["path"],
            fragment=part["fragment"],
            first=part["from"],
            end=part["to"],
        )
    ]


def ends_of(planned: list[dict[str, Any]]) -> dict[str, int]:
    return {str(part["fragment"]): part["to"] for part in planned}


def active_count(call: Caller, path: str) -> int:
    fragments = call.runtime(path)["fragments"]
    return sum(fragment["active_count"] for fragment in fragments)


def test_partitioned_queue_is_read_and_written_through_any_broker(
    calls: dict[str, Caller],
) -> None:
    first, second, third = calls.values()
    wide = WIDE[0]
    texts = texts_of(300)
    for at, call in enumerate((first, second, third)):
        fill(call, wide, texts[at::3])
    for call in (first, second, third):
        fragments = call.runtime(wide)["fragments"]
        assert [one["index"] for one in fragments] == list(range(FRAGMENTS))
        expected = Counter(fragment_index(text, FRAGMENTS) for text in texts)
        assert {one["index"]: one["active_count"] for one in fragments} == expected
        assert len({one["store"] for one in fragments}) == 4
    [epoch] = first.lease(wide)
    renewed = second.post(
        "lease",
        reader=READER,
        duration_ms=60_000,
        entities=[{"path": wide, "epoch": epoch}],
    )
    assert renewed["leases"][0]["epoch"] == epoch
    for call in (first, second, third):
        leases = [one["lease"] for one in call.runtime(wide)["fragments"]]
        assert {one["epoch"] for one in leases} == {epoch}
    planned = planned_of(third, wide, epoch, max_messages=120, split_messages=10)
    assert [part["fragment"] for part in planned] == list(range(FRAGMENTS))
    assert 100 < sum(part["messages"] for part in planned) <= 130
    found = read(second, planned)
    assert sorted(found) == sorted(read(first, planned))
    assert len(found) == sum(part["messages"] for part in planned)
    settled = first.settle(wide, epoch, to=ends_of(planned))
    assert settled["completed"] == len(found)
    assert active_count(third, wide) == 300 - len(found)
    rest = planned_of(second, wide, epoch)
    found += read(third, rest)
    assert sorted(found) == sorted(texts)
    numbers = [
        row["sequence_number"]
        for part in (rest[0], rest[7])
        for row in first.rows(
            wide, fragment=part["fragment"], first=part["from"], end=part["to"]
        )[:1]
    ]
    letters = [
        {"sequence_number": number, "reason": "r", "description": "d"}
        for number in numbers
    ]
    settled = third.settle(wide, epoch, dead_letter=letters, to=ends_of(rest))
    assert settled["dead_lettered"] == len(numbers) == 2
    assert active_count(second, wide) == 0
    assert active_count(first, f"{wide}/$DeadLetterQueue") == 2
    entities = [{"path": wide, "epoch": epoch}]
    assert second.post("lease", reader=READER, release=True, entities=entities) == {
        "released": 1
    }
    assert [one["lease"] for one in first.runtime(wide)["fragments"]] == [
        None
    ] * FRAGMENTS


def test_one_aligned_plan_over_queues_of_all_brokers(
    trio: Brokers, calls: dict[str, Caller]
) -> None:
    first, second, third = calls.values()
    paths = queues(trio, "aligned")
    for number in range(30):
        for path in paths:
            fill(second, path, [f"{path} {number}"])
    epochs = dict(zip(paths, first.lease(*paths), strict=True))
    entities = [
        {"path": path, "generation": first.generation(path), "epoch": epochs[path]}
        for path in paths
    ]
    found: list[tuple[int, str]] = []
    while True:
        planned = third.post(
            *("plan",), reader=READER, entities=entities, aligned=True, max_messages=20
        )["fragments"]
        part = [
            (row["enqueued_time"], row["body"].decode())
            for one in planned
            for row in first.rows(one["path"], first=one["from"], end=one["to"])
        ]
        if not part and len(found) == 90:
            break
        # What is in a later plan was enqueued later.
        assert not found or not part or max(found)[0] < min(part)[0]
        found += part
        for entity, one in zip(entities, planned, strict=True):
            second.settle(one["path"], epochs[one["path"]], to=one["to"])
            entity["from"] = {"0": one["to"]}
    assert sorted(body for _, body in found) == sorted(
        f"{path} {number}" for path in paths for number in range(30)
    )


def test_rows_are_refused_one_by_one_whoever_has_their_entity(
    trio: Brokers, calls: dict[str, Caller]
) -> None:
    first, second, _ = calls.values()
    one, two, disabled = queues(trio, "rows")
    wide, status = WIDE[1], as_json(status="SendDisabled")
    asyncio.run(trio.ask("1", "update-entity", path=disabled, properties=status))
    paths = [one, disabled, two, "nowhere", wide, disabled, wide, one]
    rows = [(path, keyed(f"{at}")) for at, path in enumerate(paths)]
    rows.append((wide, b"not a message"))
    for call in (first, second):
        answer = call.append(rows)
        assert answer["applied"] == 5
        refused = {one["row"]: one["condition"] for one in answer["refused"]}
        assert refused == {
            1: "com.microsoft:entity-disabled",
            3: "amqp:not-found",
            5: "com.microsoft:entity-disabled",
            8: "com.microsoft:argument-error",
        }
    # A row without a key goes to a fragment of the broker that is asked.
    assert first.append([(wide, data_message("free"))])["applied"] == 1
    counts = [active_count(second, path) for path in (one, two, disabled, wide)]
    assert counts == [4, 2, 0, 5]


def test_leases_of_several_brokers_are_taken_whole_or_not_at_all(
    trio: Brokers, calls: dict[str, Caller]
) -> None:
    first, second, third = calls.values()
    one, two, three = queues(trio, "leased")
    wide = WIDE[2]
    second.lease(two, reader="another")
    wanted: dict[str, Any] = {"reader": READER, "duration_ms": 60_000}
    for order in ((one, two, three, wide), (wide, three, two, one)):
        wanted["entities"] = [{"path": path} for path in order]
        assert third.ask("lease", wanted).refusal == (409, "twinbus:reader-lease-held")
    for path in (one, three, wide):
        fragments = first.runtime(path)["fragments"]
        assert [one["lease"] for one in fragments] == [None] * len(fragments)
    # With an epoch that is lost, none is renewed.
    [epoch] = first.lease(one)
    wanted["entities"] = [{"path": one, "epoch": epoch}, {"path": three, "epoch": "1"}]
    assert second.ask("lease", wanted).refusal == (410, "twinbus:reader-lease-lost")


def test_settlement_is_checked_by_all_brokers_before_any_settles(
    trio: Brokers, calls: dict[str, Caller]
) -> None:
    first, second, third = calls.values()
    paths = queues(trio, "settled")
    for path in paths:
        fill(first, path, texts_of(5))
    epochs = second.lease(*paths)
    ends = {
        path: planned_of(third, path, e)[0]["to"]
        for path, e in zip(paths, epochs, strict=True)
    }
    for wrong in range(3):
        entities = [
            {"path": path, "epoch": "7" if at == wrong else epoch, "to": {"0": end}}
            for at, (epoch, (path, end)) in enumerate(
                zip(epochs, ends.items(), strict=True)
            )
        ]
        answer = third.ask("settle", {"reader": READER, "entities": entities})
        assert answer.refusal == (410, "twinbus:reader-lease-lost")
        assert [active_count(first, path) for path in paths] == [5, 5, 5]
    for entity, epoch in zip(entities, epochs, strict=True):
        entity["epoch"] = epoch
    settled = third.post("settle", reader=READER, entities=entities)["entities"]
    assert [(one["path"], one["completed"]) for one in settled] == [
        (path, 5) for path in paths
    ]


def test_lease_and_plan_survive_the_loss_of_one_owner(brokers: Brokers) -> None:
    asyncio.run(brokers.start_three("wide"))
    texts = texts_of(200)
    with clients(brokers) as calls:
        fill(calls["1"], "wide", texts)
        [epoch] = calls["3"].lease("wide", duration_ms=60_000)
        planned = planned_of(calls["1"], "wide", epoch, max_messages=150)
        expected = sorted(read(calls["1"], planned))
    asyncio.run(brokers.kill("2"))
    asyncio.run(until(lambda: brokers.owns_all("1", "2", "3")))
    with clients(brokers) as calls:
        for call in calls.values():
            assert sorted(read(call, planned)) == expected
        entity = {"path": "wide", "epoch": epoch}
        renewed = calls["2"].post(
            "lease", reader=READER, duration_ms=60_000, entities=[entity]
        )
        assert renewed["leases"][0]["epoch"] == epoch
        settled = calls["2"].settle("wide", epoch, to=ends_of(planned))
        assert settled["completed"] == len(expected)
        rest = planned_of(calls["3"], "wide", epoch)
        assert sorted(expected + read(calls["2"], rest)) == sorted(texts)


def test_a_client_needs_its_claims_at_the_broker_that_it_asks(
    trio: Brokers, calls: dict[str, Caller]
) -> None:
    first, _, _ = calls.values()
    one, own, three = queues(trio, "claimed")
    token = _token(trio, own)
    assert first.ask("runtime", {"entities": [own]}, token).status == 200
    for path in (one, three, WIDE[3]):
        answer = first.ask("runtime", {"entities": [path]}, token)
        assert answer.status == 401, answer.body
        body = append_body([(own, keyed("a")), (path, keyed("b"))])
        assert first.ask("append", body, token).status == 401
    assert active_count(first, own) == 0


def test_requests_between_brokers_need_the_key_of_the_cluster(
    trio: Brokers, calls: dict[str, Caller]
) -> None:
    key = asyncio.run(trio.cluster_key())
    cluster = _token(trio, key_name="$cluster", key=key.hex())
    target, body = "/%24peers/bulk/runtime", b'{"requests": []}'
    address = asyncio.run(trio.alive())["1"].address
    peer = Caller(0, cluster)
    peer.use(greeted(address, key))
    assert peer.request("POST", target, body).body == b"[]"
    for token in (_token(trio), "", _token(trio, key_name="$cluster")):
        assert peer.request("POST", target, body, token).status == 401
    asked = {"entities": [WIDE[3]]}
    assert peer.ask("runtime", asked).status == 401
    peer.close()
    # There, too, whoever has not greeted is a client.
    first, _, _ = calls.values()
    assert first.request("POST", target, body, cluster).status == 401
    assert first.ask("runtime", asked, cluster).status == 401
    # Elsewhere it is no key at all.
    shared = Caller(trio.port, cluster)
    assert shared.request("POST", target, body).status == 401
    assert shared.ask("runtime", asked).status == 401
    shared.close()
