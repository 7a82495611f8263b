"""A transaction keeps its work, checks all of it, and applies all of it or nothing."""

import pytest

from twinbus.broker import settlement
from twinbus.broker.admission import Duplicates
from twinbus.broker.home import Home
from twinbus.broker.transaction import Transaction, TransactionLimits, Work
from twinbus.errors import (
    MessageLockLost,
    NotAllowed,
    QuotaExceeded,
    ServerBusy,
    ServiceBusError,
)
from twinbus.limits import TRANSACTION_WORK_BYTES

from .world import NOW, Place

HOME = Home()


class Step(Work):
    """Work that notes what becomes of it."""

    def __init__(
        self,
        happened: list[str],
        *,
        refusal: ServiceBusError | None = None,
        messages: int = 0,
        size: int = 0,
        home: Home = HOME,
    ) -> None:
        super().__init__(home, "q")
        self._happened = happened
        self._refusal = refusal
        self.message_count = messages
        self.added_bytes = size

    def check(self, now: int) -> None:
        if self._refusal is not None:
            raise self._refusal
        self._happened.append("checked")

    def apply(self, duplicates: Duplicates, now: int) -> None:
        self._happened.append("applied")

    def committed(self) -> None:
        self._happened.append("committed")

    def let_go(self) -> None:
        self._happened.append("let go")


@pytest.fixture
def happened() -> list[str]:
    return []


def begun(limits: TransactionLimits | None = None) -> Transaction:
    return Transaction(b"t", NOW, limits or TransactionLimits())


def test_nothing_is_applied_before_everything_is_checked(happened: list[str]) -> None:
    transaction = begun()
    transaction.enlist(Step(happened))
    transaction.enlist(Step(happened))
    assert happened == []
    transaction.check(NOW)
    transaction.apply(Duplicates(), NOW)
    transaction.committed()
    assert happened == ["checked"] * 2 + ["applied"] * 2 + ["committed"] * 2


def test_one_refusal_stands_for_all(happened: list[str]) -> None:
    transaction = begun()
    transaction.enlist(Step(happened))
    transaction.enlist(Step(happened, refusal=MessageLockLost()))
    with pytest.raises(MessageLockLost):
        transaction.check(NOW)
    transaction.roll_back()
    assert happened == ["checked", "let go", "let go"]


def test_rolled_back_work_is_let_go_once(happened: list[str]) -> None:
    transaction = begun()
    transaction.enlist(Step(happened))
    transaction.roll_back()
    transaction.roll_back()
    assert happened == ["let go"]


def test_message_over_the_limit_dooms_the_transaction(happened: list[str]) -> None:
    transaction = begun(TransactionLimits(message_count=3))
    transaction.enlist(Step(happened, messages=3))
    with pytest.raises(
        QuotaExceeded, match=r"can send 3 messages.*number 4"
    ) as refusal:
        transaction.enlist(Step(happened, messages=1))
    assert transaction.failure is refusal.value


def test_first_reason_for_a_doom_is_kept() -> None:
    transaction = begun()
    first = MessageLockLost()
    transaction.doom(first)
    transaction.doom(ServerBusy())
    assert transaction.failure is first


def test_memory_of_one_transaction_has_a_limit(happened: list[str]) -> None:
    transaction = begun(TransactionLimits(size_bytes=1_000))
    transaction.enlist(Step(happened, size=1_000 - TRANSACTION_WORK_BYTES))
    with pytest.raises(QuotaExceeded, match="hold 1000 bytes"):
        transaction.enlist(Step(happened))


def test_memory_of_all_transactions_has_a_limit(happened: list[str]) -> None:
    limits = TransactionLimits()
    limits.total_bytes = 2_000
    first, second = begun(limits), begun(limits)
    first.enlist(Step(happened, size=1_500))
    with pytest.raises(ServerBusy, match="2000 bytes"):
        second.enlist(Step(happened, size=500))
    first.roll_back()
    assert limits.held_bytes == 0
    begun(limits).enlist(Step(happened, size=500))


def test_work_lies_in_one_store(happened: list[str]) -> None:
    transaction = begun()
    transaction.enlist(Step(happened))
    with pytest.raises(NotAllowed, match="one message store"):
        transaction.enlist(Step(happened, home=Home()))


def test_lock_is_settled_by_one_transaction(place: Place, happened: list[str]) -> None:
    place.send(b"x")
    [lock] = place.lock()
    first, second = begun(), begun()
    first.enlist_lock(lock, Step(happened))
    assert lock.enlisted_in is first
    with pytest.raises(NotAllowed, match="not discharged yet"):
        second.enlist_lock(lock, Step(happened))
    assert second.failure is not None
    assert lock.enlisted_in is first


def test_refused_work_leaves_the_lock_alone(place: Place, happened: list[str]) -> None:
    place.send(b"x")
    [lock] = place.lock()
    with pytest.raises(QuotaExceeded):
        begun(TransactionLimits(message_count=0)).enlist_lock(
            lock, Step(happened, messages=1)
        )
    assert lock.enlisted_in is None


def test_sizes_are_checked_for_all_work_together(happened: list[str]) -> None:
    place = Place(max_size_bytes=100)
    transaction = begun()
    for _ in range(2):
        step = Step(happened, size=60)
        step.target = place.queue
        transaction.enlist(step)
    with pytest.raises(QuotaExceeded, match="120 would be needed and 100 is the limit"):
        transaction.check(NOW)


def test_enlisted_lock_cannot_be_settled_otherwise(
    place: Place, happened: list[str]
) -> None:
    place.send(b"x")
    [lock] = place.lock()
    begun().enlist_lock(lock, Step(happened))
    with pytest.raises(NotAllowed, match="'orders' is settled in a transaction"):
        settlement.complete(place.queue, lock, 1, NOW, place.changes)
    assert place.queue.holds(lock, NOW)
