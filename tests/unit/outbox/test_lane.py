"""Messages from one store to another: forwarded, sent via, sent in a transaction."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from unit.entities.world import Fault

from twinbus.broker.changes import ChangeSet, OutboxEntry
from twinbus.broker.fragment import DEAD_LETTER, TRANSFER_DEAD_LETTER
from twinbus.broker.transaction import Transaction, TransactionLimits
from twinbus.errors import NotAllowed, QuotaExceeded, ServerBusy, ServiceBusError
from twinbus.links.outcomes import COMPLETE, Settlement
from twinbus.links.sending import accept
from twinbus.links.transaction_commit import Commit, TransactionListener
from twinbus.links.transactional_work import (
    TransactionalSend,
    TransactionalSettlement,
)
from twinbus.links.via import Via
from twinbus.outbox.remote_stores import Receipt, RefusedEntry
from twinbus.store.base import CommitFailed, CommitUnknown

from .world import NOW, Answers, World, message, received


def send(world: World, *bodies: str, queue: str = "here") -> None:
    fragment = world.namespace.queue(queue).fragment()
    for body in bodies:
        accept(fragment, message(body), 1, world.clock.now())
    fragment.home.wake()


async def forward(world: World) -> None:
    await world.namespace.update_queue("here", {"forward_to": "there"})


async def test_forwarded_messages_arrive_in_order(world: World) -> None:
    await forward(world)
    send(world, "1", "2", "3")
    await world.delivered()
    assert received(world.there.fragment()) == ["1", "2", "3"]
    assert world.here.counts().total == 0


@pytest.mark.parametrize(
    "fault",
    [
        Fault(CommitFailed("no")),
        Fault(CommitUnknown("perhaps"), happens=True),
        Fault(CommitUnknown("perhaps")),
    ],
)
@pytest.mark.parametrize("column", ["outbox_added", "ledger_ranges", "outbox_removed"])
async def test_a_failed_commit_neither_loses_nor_doubles(
    world: World, fault: Fault, column: str
) -> None:
    """Of the move to the outbox, of the append at the target, of the removal."""
    await forward(world)
    owner = world.second if column == "ledger_ranges" else world.first
    store, has_failed = world.store_of(owner), asyncio.Event()
    commit = store.commit

    async def fail_once(changes: ChangeSet) -> None:
        if getattr(changes, column) and not has_failed.is_set():
            has_failed.set()
            store.faults.append(fault)
        await commit(changes)

    store.commit = fail_once  # type: ignore[method-assign]
    send(world, "1", "2")
    await world.until(has_failed.is_set)
    await world.until(lambda: world.here.counts().total == 0)
    await world.delivered()
    assert received(world.there.fragment()) == ["1", "2"]
    assert world.here.counts().total == 0


async def test_a_target_that_refuses_what_arrives_leaves_a_dead_letter(
    world: World,
) -> None:
    await forward(world)
    await world.leave(world.second)
    send(world, "1")
    await world.until(lambda: world.here.counts().transfer == 1)
    there = world.there.fragment()
    disabled = replace(world.there.description, status="SendDisabled")
    there.settings = disabled.settings("there")
    await world.come_back(world.second)
    await world.delivered()
    assert received(there) == []
    assert received(world.here.fragment(DEAD_LETTER)) == ["1"]
    assert world.here.counts().transfer == 0


def via(world: World) -> Via:
    return Via(world.here.fragment(), world.there.routing, 1)


async def test_a_send_via_another_store_arrives(world: World) -> None:
    answers = Answers()
    via(world).send([message("1"), message("2")], 7, answers)
    await world.delivered()
    assert answers.accepted == [7]
    assert received(world.there.fragment()) == ["1", "2"]


async def test_a_refused_send_via_another_store_is_kept_by_the_way(
    world: World,
) -> None:
    """The destination requires sessions by the time at which the message arrives."""
    there = await world.namespace.create_queue("sessions", {"requires_session": True})
    assert there.fragment().home is world.first
    way = world.there.fragment()
    answers = Answers()
    Via(way, there.routing, 1).send([message("1")], 7, answers)
    await world.delivered()
    assert answers.accepted == [7]
    assert received(world.there.fragment(TRANSFER_DEAD_LETTER)) == ["1"]


class Discharge(TransactionListener):
    """Waits for the end of one transaction."""

    def __init__(self) -> None:
        super().__init__()
        self.is_committed = False
        self.error: Exception | None = None

    def applied(self, transaction: Transaction, answer_to: int) -> None:
        self.note(transaction.home, answer_to)

    def refused(self, answer_to: int, error: Exception) -> None:
        self.error = error

    def committed(self, items: list[int]) -> None:
        self.is_committed = True

    def failed(self, items: list[int], error: Exception) -> None:
        self.error = error


async def settled_in_transaction(world: World) -> Transaction:
    """A transaction that completes the message of `here`."""
    send(world, "settled")
    await world.until(world.first.is_idle)
    fragment = world.here.fragment()
    [lock] = fragment.lock(1, 1, NOW, bytes(16), world.first.changes)
    transaction = Transaction(b"id", NOW, TransactionLimits())
    settlement = Settlement(COMPLETE)
    work = TransactionalSettlement(fragment, lock, settlement, 1)
    transaction.enlist_lock(lock, work)
    return transaction


async def test_a_transaction_settles_here_and_sends_there(world: World) -> None:
    transaction = await settled_in_transaction(world)
    there = world.there.fragment()
    transaction.enlist(TransactionalSend(there, [message("sent")], 1))
    assert transaction.home is world.first
    discharge = Discharge()
    world.first.admit(Commit(transaction, 0, discharge))
    await world.delivered()
    assert discharge.is_committed
    assert received(there) == ["sent"]
    assert world.here.counts().total == 0


async def test_the_store_of_a_settlement_is_that_of_the_transaction(
    world: World,
) -> None:
    """Also if the transaction has sent to another store before."""
    there = world.there.fragment()
    transaction = Transaction(b"id", NOW, TransactionLimits())
    transaction.enlist(TransactionalSend(there, [message("sent")], 1))
    assert transaction.home is world.second
    other = await settled_in_transaction(world)
    [work] = other.work()
    transaction.enlist(work)
    assert transaction.home is world.first


async def test_settlements_in_two_stores_are_refused(world: World) -> None:
    transaction = await settled_in_transaction(world)
    send(world, "other", queue="there")
    await world.until(world.second.is_idle)
    there = world.there.fragment()
    [lock] = there.lock(1, 1, NOW, bytes(16), world.second.changes)
    settlement = Settlement(COMPLETE)
    work = TransactionalSettlement(there, lock, settlement, 1)
    with pytest.raises(NotAllowed, match="one message store only"):
        transaction.enlist_lock(lock, work)


class Elsewhere:
    """Another broker, which serves the second store."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.brought: list[OutboxEntry] = []
        self.refuses = False
        self.failures: list[ServiceBusError] = []

    def serves(self, store_uuid: bytes) -> bool:
        return store_uuid == self._world.second.store_uuid

    async def append(
        self, store_uuid: bytes, source_uuid: bytes, epoch: int, entries: Any
    ) -> Receipt:
        assert source_uuid == self._world.first.store_uuid
        assert epoch == self._world.first.epoch
        if self.failures:
            raise self.failures.pop()
        if self.refuses:
            first, *_ = entries
            refused = RefusedEntry(entry=first, reason="Full", text="no room")
            return Receipt(taken=[], refused=[refused])
        self.brought += entries
        return Receipt(taken=entries, refused=[], full=[entries[0].target])

    async def diverted(self, log_uuid: bytes, store_uuid: bytes) -> list[str]:
        raise AssertionError("it is not asked")


async def served_elsewhere(world: World) -> Elsewhere:
    await forward(world)
    await world.leave(world.second)
    elsewhere = world.namespace.transfer_log.elsewhere = Elsewhere(world)
    return elsewhere


async def test_entries_are_brought_to_the_broker_that_has_the_store(
    world: World,
) -> None:
    elsewhere = await served_elsewhere(world)
    elsewhere.failures.append(ServerBusy("not now"))
    send(world, "1", "2")
    await world.until(lambda: len(elsewhere.brought) == 2)
    await world.until(lambda: not world.first.outbox.lanes())
    ids = [one.entry_id for one in elsewhere.brought]
    assert ids == sorted(ids)
    target, now = elsewhere.brought[0].target, world.clock.now()
    with pytest.raises(QuotaExceeded):
        world.first.outbox.check_target(target, now, "there")
    world.first.outbox.check_target(target, now + 60_000, "there")


async def test_what_another_broker_refuses_is_a_dead_letter_here(world: World) -> None:
    elsewhere = await served_elsewhere(world)
    elsewhere.refuses = True
    send(world, "1")
    await world.until(lambda: world.here.counts().dead_letter == 1)
    assert received(world.here.fragment(DEAD_LETTER)) == ["1"]
    assert world.here.counts().transfer == 0


class Leaving(Elsewhere):
    """It has the second store no more when it answers: that is served here again."""

    async def append(
        self, store_uuid: bytes, source_uuid: bytes, epoch: int, entries: Any
    ) -> Receipt:
        receipt = await super().append(store_uuid, source_uuid, epoch, entries)
        world, self.serves_it = self._world, False
        await world.come_back(world.second)
        # As whoever takes a store does.
        world.namespace.transfer_log.renew_all()
        assert not world.there.fragment().is_reachable()
        return receipt

    serves_it = True

    def serves(self, store_uuid: bytes) -> bool:
        return self.serves_it and super().serves(store_uuid)


async def test_detour_ends_though_the_store_comes_here_meanwhile(world: World) -> None:
    world.namespace.transfer_log.elsewhere = elsewhere = Leaving(world)
    await world.leave(world.second)
    target, answers = world.there.fragment().address(), Answers()
    given = target, world.second, [message("kept")]
    world.namespace.transfer_log.send(
        *given, entity_path="there", limit_bytes=1_000, listener=answers, item=0
    )
    await world.until(lambda: len(elsewhere.brought) == 1)
    await world.delivered()
    assert world.there.fragment().is_reachable()
