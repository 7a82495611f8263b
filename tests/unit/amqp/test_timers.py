"""Heartbeats and silent peers, with a simulated clock."""

from twinbus.amqp.timers import Timers


def test_nothing_is_due_before_the_first_instant_is_known() -> None:
    assert Timers(1000).next_deadline() is None


def test_the_peer_is_given_up_after_our_time_out() -> None:
    timers = Timers(1000)
    timers.start(500)
    assert timers.next_deadline() == 1500
    timers.received(700)
    assert not timers.idle_due(1699)
    assert timers.idle_due(1700)


def test_heartbeats_go_at_half_of_what_the_peer_asked() -> None:
    timers = Timers(0)
    timers.start(0)
    assert timers.next_deadline() is None
    timers.peer_timeout(60_000)
    assert timers.next_deadline() == 30_000
    assert timers.heartbeat_due(30_000)
    timers.start(30_000)
    timers.sent()
    assert not timers.heartbeat_due(59_999)
    assert timers.next_deadline() == 60_000
