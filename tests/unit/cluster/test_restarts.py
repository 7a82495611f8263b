"""How long a broker that has ended waits for its next start."""

from twinbus.cluster.restarts import (
    FIRST_PAUSE_MS,
    LONGEST_PAUSE_MS,
    STEADY_MS,
    Restarts,
)


def test_pauses_grow_up_to_a_limit() -> None:
    restarts = Restarts()
    pauses = []
    for _ in range(10):
        restarts.started(0)
        pauses.append(restarts.ended(0))
    assert pauses[0] == FIRST_PAUSE_MS
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_PAUSE_MS


def test_broker_that_ran_for_a_while_is_started_soon() -> None:
    restarts = Restarts()
    for _ in range(5):
        restarts.started(0)
        restarts.ended(0)
    restarts.started(1_000)
    assert restarts.ended(1_000 + STEADY_MS) == FIRST_PAUSE_MS
