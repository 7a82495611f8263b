"""The transition table, pair by pair, and the health that uses it."""

import pytest

from twinbus.pairing.entity_health import TRANSITIONS, EntityHealth, Happening, State

S, H = State, Happening
IMPOSSIBLE = None

NEXT = {
    (S.HEALTHY, H.SEND_SUCCEEDED): S.HEALTHY,
    (S.HEALTHY, H.SEND_FAILED): S.SUSPECT,
    (S.HEALTHY, H.INTERVAL_ENDED): IMPOSSIBLE,
    (S.HEALTHY, H.PING_SUCCEEDED): IMPOSSIBLE,
    (S.HEALTHY, H.PING_FAILED): IMPOSSIBLE,
    (S.SUSPECT, H.SEND_SUCCEEDED): S.HEALTHY,
    (S.SUSPECT, H.SEND_FAILED): S.SUSPECT,
    (S.SUSPECT, H.INTERVAL_ENDED): S.FAILED_OVER,
    (S.SUSPECT, H.PING_SUCCEEDED): IMPOSSIBLE,
    (S.SUSPECT, H.PING_FAILED): IMPOSSIBLE,
    (S.FAILED_OVER, H.SEND_SUCCEEDED): S.FAILED_OVER,
    (S.FAILED_OVER, H.SEND_FAILED): S.FAILED_OVER,
    (S.FAILED_OVER, H.INTERVAL_ENDED): IMPOSSIBLE,
    (S.FAILED_OVER, H.PING_SUCCEEDED): S.RECOVERING,
    (S.FAILED_OVER, H.PING_FAILED): S.FAILED_OVER,
    (S.RECOVERING, H.SEND_SUCCEEDED): S.HEALTHY,
    (S.RECOVERING, H.SEND_FAILED): S.SUSPECT,
    (S.RECOVERING, H.INTERVAL_ENDED): IMPOSSIBLE,
    (S.RECOVERING, H.PING_SUCCEEDED): IMPOSSIBLE,
    (S.RECOVERING, H.PING_FAILED): IMPOSSIBLE,
}


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("happening", Happening)
def test_every_pair_leads_where_it_should(state: State, happening: Happening) -> None:
    assert TRANSITIONS[state].get(happening) == NEXT[state, happening]


def failed_over() -> EntityHealth:
    health = EntityHealth(100)
    health.send_failed("away", 0)
    health.let_time_pass(100)
    return health


def test_interval_begins_with_the_first_failure_and_not_with_later_ones() -> None:
    health = EntityHealth(100)
    health.send_failed("first", 10)
    health.send_failed("second", 100)
    assert not health.is_diverted(109)
    assert health.is_diverted(110)
    assert health.last_failure == "second"


def test_success_stops_the_timer_and_the_next_failure_starts_it_anew() -> None:
    health = EntityHealth(100)
    health.send_failed("away", 0)
    health.send_succeeded(99)
    assert not health.is_diverted(1_000)
    health.send_failed("away", 1_000)
    assert not health.is_diverted(1_099)
    assert health.is_diverted(1_100)


def test_interval_of_zero_fails_over_at_the_first_failure() -> None:
    health = EntityHealth(0)
    health.send_failed("away", 5)
    assert health.state is State.FAILED_OVER
    assert health.failover_count == 1


def test_late_answers_of_earlier_attempts_change_nothing() -> None:
    health = failed_over()
    health.send_succeeded(110)
    health.send_failed("late", 120)
    assert health.state is State.FAILED_OVER
    assert health.since == 100


def test_ping_that_is_accepted_opens_the_way_and_a_send_proves_it() -> None:
    health = failed_over()
    health.ping_failed(150)
    assert health.is_diverted(150)
    health.ping_succeeded(200)
    assert not health.is_diverted(200)
    health.send_succeeded(210)
    assert health.state is State.HEALTHY


def test_recovering_entity_that_fails_has_a_whole_interval_again() -> None:
    health = failed_over()
    health.ping_succeeded(200)
    health.send_failed("away again", 300)
    assert not health.is_diverted(399)
    assert health.is_diverted(400)
    assert health.failover_count == 2


@pytest.mark.parametrize("state", [State.HEALTHY, State.SUSPECT, State.RECOVERING])
def test_ping_of_an_entity_that_has_not_failed_over_is_a_bug(state: State) -> None:
    health = EntityHealth(100)
    health.state = state
    with pytest.raises(KeyError):
        health.ping_succeeded(1)
