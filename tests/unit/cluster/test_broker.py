"""Brokers take and give back stores, and nothing that was accepted is lost by that."""

import asyncio
import sqlite3
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from unit.entities.world import message

from twinbus.broker.fragment import MAIN, Fragment
from twinbus.cluster.announcement import announcement_of
from twinbus.cluster.shared_store import SharedStore
from twinbus.cluster.terms import BEAT_MS, FORGET_MS, TERM_MS
from twinbus.errors import ServerBusy, ServiceBusError
from twinbus.owner.owner_state import OwnerState
from twinbus.store.base import CommitUnknown, StoreError
from twinbus.store.catalog import BrokerRecord
from twinbus.store.process_identity import this_process
from twinbus.store.sqlite_catalog import SqliteCatalog

from .world import LOOK_MS, ClusterWorld, Member, free_lease

SOON_MS = 5 * BEAT_MS


async def test_single_broker_takes_all_stores(world: ClusterWorld) -> None:
    await world.join("a")
    await world.until(world.is_shared_equally, SOON_MS)


async def test_brokers_that_join_and_leave_share_equally(world: ClusterWorld) -> None:
    await world.join("a")
    await world.until(world.is_shared_equally, SOON_MS)
    b = await world.join("b")
    await world.until(world.is_shared_equally, SOON_MS)
    await world.join("c")
    await world.until(world.is_shared_equally, SOON_MS)
    before = [member.served() for member in world.members]
    await world.pass_time(3 * BEAT_MS)
    assert [member.served() for member in world.members] == before
    await world.leave(b)
    await world.until(world.is_shared_equally, SOON_MS)
    assert all(member.fatal == [] for member in world.members)


async def test_what_was_accepted_is_there_when_the_store_has_moved(
    world: ClusterWorld,
) -> None:
    a = await world.join("a")
    await world.until(world.is_shared_equally, SOON_MS)
    for number in range(8):
        await a.namespace.create_queue(f"q{number}", {})
        await a.send(f"q{number}")
    b = await world.join("b")
    await world.until(world.is_shared_equally, SOON_MS)
    assert len(b.served()) == 2
    moved = 0
    for number in range(8):
        path = f"q{number}"
        is_here = a.namespace.queue(path).is_available()
        owner, other = (a, b) if is_here else (b, a)
        assert owner.active_count(path) == 1
        assert not other.namespace.queue(path).is_available()
        await owner.send(path)
        assert owner.active_count(path) == 2
        moved += owner is b
    assert moved == 4


async def test_send_to_a_store_of_another_broker_is_refused(
    world: ClusterWorld,
) -> None:
    a = await world.join("a")
    await world.until(world.is_shared_equally, SOON_MS)
    for number in range(4):
        await a.namespace.create_queue(f"q{number}", {})
    await world.join("b")
    await world.until(world.is_shared_equally, SOON_MS)
    gone = [q.path for q in a.namespace.queues() if not q.is_available()]
    assert len(gone) == 2
    for path in gone:
        with pytest.raises(ServerBusy, match="is with another broker"):
            await a.send(path)


async def test_store_of_a_broker_that_left_is_taken_at_once(
    world: ClusterWorld,
) -> None:
    a, _ = await world.join("a"), await world.join("b")
    await world.until(world.is_shared_equally, SOON_MS)
    await world.leave(a)
    await world.until(world.is_shared_equally, 2 * BEAT_MS)


async def test_frozen_broker_that_cannot_be_ended_keeps_its_stores(
    world: ClusterWorld, caplog: pytest.LogCaptureFixture
) -> None:
    """Here it is the process of the test, which is not ended."""
    a, b = await world.join("a"), await world.join("b")
    await world.until(world.is_shared_equally, SOON_MS)
    # Of another process than the one that has the lease.
    b.broker._process = replace(this_process(), host="elsewhere")
    a.is_frozen = True
    await world.pass_time(2 * TERM_MS)
    assert len(b.served()) == 2
    assert "cannot be ended from here" in caplog.text
    a.is_frozen = False
    await world.pass_time(SOON_MS)
    assert world.is_shared_equally(), "it goes on where it was"


async def test_replaced_owner_cannot_write_and_goes_on_with_the_others(
    world: ClusterWorld,
) -> None:
    a, b = await world.join("a"), await world.join("b")
    await world.until(world.is_shared_equally, SOON_MS)
    await a.namespace.create_queue("q", {})
    (path,) = [p for p in a.served() if a.namespace.queue("q").is_in(a.owner(p).table)]
    a.is_frozen = True
    free_lease(path)
    await world.until(lambda: path in b.served(), 2 * TERM_MS)
    a.is_frozen = False
    with pytest.raises(ServiceBusError, match="taken over by another process"):
        await a.send("q")
    assert a.owner(path).state is OwnerState.LOST
    assert b.active_count("q") == 0
    await world.until(world.is_shared_equally, SOON_MS)


async def test_store_that_cannot_be_opened_is_left_to_others(
    world: ClusterWorld,
) -> None:
    a = await world.join("a")
    await world.until(world.is_shared_equally, SOON_MS)
    away = await _move_away(world, a)
    _break(away.location)
    await world.join("b")
    await world.pass_time(3 * TERM_MS + SOON_MS)
    reaches = [one.broker.announcement().reach for one in world.members]
    assert sum(away.uuid in reach for reach in reaches) == 1
    _move(world.folder / "elsewhere", away.location)
    await world.pass_time(FORGET_MS + SOON_MS)
    assert world.is_shared_equally()


async def test_store_that_all_have_given_up_is_taken_as_soon_as_it_is_back(
    world: ClusterWorld,
) -> None:
    a = await world.join("a")
    await world.until(world.is_shared_equally, SOON_MS)
    away = await _move_away(world, a)
    await world.pass_time(3 * TERM_MS + SOON_MS)
    assert not away.is_in_reach(world.clock.monotonic())
    _move(world.folder / "elsewhere", away.location)
    await world.until(world.is_shared_equally, SOON_MS)


async def _move_away(world: ClusterWorld, member: Member) -> SharedStore:
    """Its first store, which it tries to open from now on."""
    away = member.shared[0]
    away.owner.give_back()
    await world.settle()
    _move(away.location, world.folder / "elsewhere")
    await world.pass_time(SOON_MS)
    return away


def _break(location: str) -> None:
    Path(location).write_bytes(b"no store")


def _move(source: Path | str, target: Path | str) -> None:
    Path(source).rename(target)


async def test_broker_that_is_gone_is_withdrawn(world: ClusterWorld) -> None:
    a, b = await world.join("a"), await world.join("b")
    await world.until(world.is_shared_equally, SOON_MS)
    record = b.broker.announcement().record()
    process = {**record.description["process"], "pid": 2**22 + 1}
    description = {**record.description, "process": process, "stores": {}}
    ghost = replace(record, broker_uuid=b"g" * 16, description=description)
    await a.catalog.announce(ghost)
    await world.pass_time(2 * BEAT_MS)
    uuids = {one.broker_uuid for one in await a.catalog.brokers()}
    assert uuids == {a.broker.uuid, b.broker.uuid}


async def test_broker_that_leaves_waits_for_others_that_write(
    world: ClusterWorld,
) -> None:
    a, b = await world.join("a"), await world.join("b")
    await world.until(world.is_shared_equally, SOON_MS)
    other = sqlite3.connect(world.folder / "catalog.sqlite3", isolation_level=None)
    with closing(other):
        other.execute("BEGIN IMMEDIATE")
        leaving = asyncio.create_task(b.broker.leave())
        # It has tried, and waits for the next try.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not leaving.done()
        other.execute("ROLLBACK")
        await leaving
    uuids = {one.broker_uuid for one in await a.catalog.brokers()}
    assert uuids == {a.broker.uuid}


async def test_store_of_an_older_format_waits_for_brokers_that_cannot_read_it(
    world: ClusterWorld,
) -> None:
    a = await world.join("a")
    with closing(sqlite3.connect(world.paths[0])) as db, db:
        db.execute("UPDATE meta SET format_version = format_version - 1")
    b = await world.join("b")
    b.broker._formats = {"catalog": 4, "sqlite store": 3}
    await world.pass_time(SOON_MS)
    assert world.paths[0] not in a.served(), "b could not read it any more"
    await world.leave(b)
    assert a.shared[0].needs_migration()


async def test_directory_knows_where_stores_are(world: ClusterWorld) -> None:
    a, b = await world.join("a"), await world.join("b")
    a.broker.address, b.broker.address = "host:1", "host:2"
    await world.until(world.is_shared_equally, SOON_MS)
    await world.pass_time(2 * BEAT_MS)
    for one in a.shared:
        is_here = one.owner.is_serving
        assert a.broker.directory.address_of(one.uuid) == (
            None if is_here else "host:2"
        )


async def test_creation_that_may_have_happened_keeps_its_fragments(
    world: ClusterWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another broker may have found the entity in the catalog, and have sent to it."""
    a = await world.join("a")
    await world.until(world.is_shared_equally, SOON_MS)
    put = a.catalog.put

    async def put_without_an_answer(*entities: Any, known: int | None = None) -> None:
        await put(*entities, known=known)
        raise CommitUnknown("no answer")

    monkeypatch.setattr(a.catalog, "put", put_without_an_answer)
    with pytest.raises(ServerBusy, match="nobody knows whether the change happened"):
        await a.namespace.create_queue("q", {})
    monkeypatch.undo()
    b = await world.join("b")
    await world.until(world.is_shared_equally, SOON_MS)
    (owner,) = [one for one in (a, b) if one.namespace.queue("q").is_available()]
    await owner.send("q")
    await world.pass_time(SOON_MS)
    assert owner.active_count("q") == 1


async def test_brokers_are_settled_when_each_knows_that_nothing_will_move(
    world: ClusterWorld,
) -> None:
    a = await world.join("a")
    await world.until(lambda: a.broker.announcement().is_settled, SOON_MS)
    b = await world.join("b")
    await world.pass_time(BEAT_MS)
    assert not a.broker.announcement().is_settled, "it is to give stores back"
    members = (a, b)

    def are_settled() -> bool:
        return all(one.broker.announcement().is_settled for one in members)

    await world.until(are_settled, SOON_MS)
    assert world.is_shared_equally()
    for one, other in (members, members[::-1]):
        for path in other.served():
            found = one.broker.directory.owner_of(one.owner(path).store_uuid)
            assert found is not None and found.broker_uuid == other.broker.uuid
    await world.pass_time(2 * LOOK_MS)
    told = [announcement_of(record) for record in await a.catalog.brokers()]
    assert all(one is not None and one.is_settled for one in told)


async def test_broker_knows_for_how_long_it_was_not_heard_of(
    world: ClusterWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = await world.join("a"), await world.join("b")
    await world.until(world.is_shared_equally, SOON_MS)
    assert a.broker.unheard_ms() <= BEAT_MS
    monkeypatch.setattr(a.catalog, "announce", _refuse_to_announce)
    a.is_frozen = True
    for _ in range(TERM_MS // LOOK_MS):
        await world.pass_time(LOOK_MS)
        with suppress(StoreError):
            await a.broker.look()
    assert a.broker.unheard_ms() >= TERM_MS
    assert b.broker.unheard_ms() <= BEAT_MS
    monkeypatch.undo()
    a.is_frozen = False
    await world.pass_time(2 * BEAT_MS)
    assert a.broker.unheard_ms() <= BEAT_MS


async def _refuse_to_announce(record: object = None) -> None:
    raise StoreError("The catalog is away.")


async def test_idle_entity_is_deleted_though_another_broker_changes_the_catalog(
    world: ClusterWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them finds its own idle entities at the same time."""
    a, b = await world.join("a"), await world.join("b")
    await world.until(world.is_shared_equally, SOON_MS)
    await a.namespace.create_queue("q", {"auto_delete_on_idle_ms": 300_000})
    remove = a.catalog.remove

    async def be_late(*given: Any, **named: Any) -> None:
        monkeypatch.undo()
        await b.namespace.create_queue("r", {})
        await remove(*given, **named)

    monkeypatch.setattr(a.catalog, "remove", be_late)
    world.clock.advance(300_001)
    a.namespace.idle.tick(world.clock.now())
    await a.namespace.idle.finished()
    assert a.namespace.find("q") is None
    assert a.namespace.find("r") is not None, "it has followed"


async def test_broker_learns_what_was_kept_for_it_before_others_hear_of_it_again(
    world: ClusterWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = await world.join("a")
    await world.until(world.is_shared_equally, SOON_MS)
    for number in range(4):
        await a.namespace.create_queue(f"q{number}", {})
    b = await world.join("b")
    # Of another process than the one that has the leases.
    b.broker._process = replace(this_process(), host="elsewhere")
    await world.until(world.is_shared_equally, SOON_MS)
    b.namespaces.tick(world.clock.now())
    path, fragment = _kept_at_another(a)
    with monkeypatch.context() as cut_off:
        for operation in ("announce", "brokers"):
            cut_off.setattr(a.catalog, operation, _refuse_to_announce)
        await _count_as_dead(a, world)
    # It serves on, and others take it for dead.
    assert fragment.is_reachable()
    assert not b.broker.directory.others()
    queue = b.namespace.queue(path)
    detour = b.namespace.detour_of(queue)
    assert detour is not None
    detour.send([message()], None, 0)
    was_reachable: list[bool] = []

    async def announce(record: BrokerRecord) -> None:
        was_reachable.append(fragment.is_reachable())
        await SqliteCatalog.announce(a.catalog, record)

    monkeypatch.setattr(a.catalog, "announce", announce)
    await world.until(lambda: bool(b.broker.directory.others()), SOON_MS)
    assert was_reachable[0] is False


async def _count_as_dead(cut_off: Member, world: ClusterWorld) -> None:
    cut_off.is_frozen = True
    for _ in range(2 * TERM_MS // LOOK_MS):
        await world.pass_time(LOOK_MS)
        with suppress(StoreError):
            await cut_off.broker.look()
    cut_off.is_frozen = False


def _kept_at_another(member: Member) -> tuple[str, Fragment]:
    """A queue here, and its fragment: if it were away, its messages would be kept in a
    store of another broker."""
    log_of = member.namespace.transfer_log.log_of
    for queue in member.namespace.queues():
        log = log_of(queue.home(0))
        if queue.is_available() and log is not None and not log.is_serving:
            return queue.path, queue.fragment(MAIN)
    raise AssertionError("all stores are here")
