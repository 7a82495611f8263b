"""Faults that are set are found, and vanish when they are cleared or have ended."""

from random import Random

import pytest

from twinbus.errors import MessagingEntityNotFound, QuotaExceeded
from twinbus.faults.decision import Occasion
from twinbus.faults.fault import Effect, InjectedFault, Operation
from twinbus.faults.fault_table import FaultTable
from twinbus.limits import FAULTS

ANY = InjectedFault(effect=Effect.REFUSE)
SEND = Occasion(operation=Operation.SEND, entity="orders", namespace="site-a")
REFUSE = (Effect.REFUSE,)


@pytest.fixture
def table() -> FaultTable:
    return FaultTable(Random(1))


def test_set_fault_is_found_until_it_is_cleared(table: FaultTable) -> None:
    fault = table.set(ANY, 0)
    assert table.find(REFUSE, SEND, 0) == fault
    assert table.find((Effect.DROP,), SEND, 0) is None
    assert table.clear(fault.number) == [fault]
    assert table.find(REFUSE, SEND, 0) is None
    with pytest.raises(MessagingEntityNotFound, match="number 1"):
        table.clear(fault.number)


def test_fault_that_has_ended_vanishes(
    table: FaultTable, caplog: pytest.LogCaptureFixture
) -> None:
    table.set(InjectedFault(effect=Effect.REFUSE, until=1000), 0)
    assert len(table.active(999)) == 1
    assert table.active(1000) == []
    assert [record.message for record in caplog.records] == [
        "fault 1 is set: refuse, manage/receive/send",
        "fault 1 has ended: refuse, manage/receive/send",
    ]


def test_seed_does_not_depend_on_other_operations(table: FaultTable) -> None:
    seeded = InjectedFault(
        effect=Effect.REFUSE, entity="orders", probability=0.5, seed=3
    )
    other = Occasion(operation=Operation.SEND, entity="other", namespace="site-a")
    table.set(seeded, 0)
    alone = [table.find(REFUSE, SEND, 0) is not None for _ in range(30)]
    table.clear()
    table.set(seeded, 0)
    beside = []
    for _ in range(30):
        table.find(REFUSE, other, 0)
        beside.append(table.find(REFUSE, SEND, 0) is not None)
    assert alone == beside
    assert 0 < sum(alone) < 30


def test_number_of_faults_has_a_limit(table: FaultTable) -> None:
    for _ in range(FAULTS):
        table.set(ANY, 0)
    with pytest.raises(QuotaExceeded, match="Clear some"):
        table.set(ANY, 0)
    assert len(table.clear()) == FAULTS


def test_whoever_listens_is_told_of_a_new_fault(table: FaultTable) -> None:
    told: list[InjectedFault] = []
    table.on_set = told.append
    assert told == [] and [table.set(ANY, 0)] == told
