"""Whether a fault applies depends on the operation, the time and a number alone."""

import pytest

from twinbus.faults.decision import Occasion, StoreOccasion, added_ms, applies
from twinbus.faults.fault import Effect, InjectedFault, Operation

SEND = Occasion(operation=Operation.SEND, entity="Orders", namespace="site-a")
COMMIT = StoreOccasion(
    store="/data/messages.sqlite3",
    namespace="site-a",
    is_commit=True,
    entities=("orders", "events"),
)
READ = StoreOccasion(
    store="/data/messages.sqlite3", namespace="site-a", is_commit=False
)


@pytest.mark.parametrize(
    ("fault", "is_hit"),
    [
        (InjectedFault(effect=Effect.REFUSE), True),
        (InjectedFault(effect=Effect.REFUSE, entity="orders"), True),
        (InjectedFault(effect=Effect.REFUSE, entity="ord*"), True),
        (InjectedFault(effect=Effect.REFUSE, entity="other"), False),
        (InjectedFault(effect=Effect.REFUSE, namespace="site-b"), False),
        (
            InjectedFault(
                effect=Effect.REFUSE, operations=frozenset((Operation.RECEIVE,))
            ),
            False,
        ),
        (InjectedFault(effect=Effect.SLOW, delay_ms=1), False),
    ],
)
def test_operation_is_hit_by_its_entity_and_kind(
    fault: InjectedFault, is_hit: bool
) -> None:
    assert applies(fault, SEND, 0, 0.0) is is_hit


@pytest.mark.parametrize(
    ("fault", "hits_commit", "hits_read"),
    [
        (InjectedFault(effect=Effect.FAILING), True, False),
        (InjectedFault(effect=Effect.FAILING, entity="events"), True, False),
        (InjectedFault(effect=Effect.FAILING, entity="other"), False, False),
        (InjectedFault(effect=Effect.SLOW, store="*other*"), False, False),
        (InjectedFault(effect=Effect.GONE), True, True),
        (InjectedFault(effect=Effect.GONE, store="*messages*"), True, True),
        (InjectedFault(effect=Effect.GONE, store="*other*"), False, False),
        (InjectedFault(effect=Effect.REFUSE), False, False),
    ],
)
def test_store_is_hit_by_its_location_and_what_is_committed(
    fault: InjectedFault, hits_commit: bool, hits_read: bool
) -> None:
    assert applies(fault, COMMIT, 0, 0.0) is hits_commit
    assert applies(fault, READ, 0, 0.0) is hits_read


def test_fault_ends_at_its_time() -> None:
    fault = InjectedFault(effect=Effect.REFUSE, until=1000)
    assert applies(fault, SEND, 999, 0.0)
    assert not applies(fault, SEND, 1000, 0.0)


def test_random_number_below_the_probability_is_a_hit() -> None:
    fault = InjectedFault(effect=Effect.REFUSE, probability=0.2)
    assert applies(fault, SEND, 0, 0.19)
    assert not applies(fault, SEND, 0, 0.2)


def test_slow_commit_takes_longer_by_delay_and_rate() -> None:
    fault = InjectedFault(effect=Effect.SLOW, delay_ms=100, rate=50)
    assert added_ms(fault, 0) == 100
    assert added_ms(fault, 25) == 600
