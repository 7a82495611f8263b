"""Who is alive, as one broker sees it."""

from twinbus.cluster.membership import Membership
from twinbus.cluster.terms import BEAT_MS, TERM_MS

A, B = b"a" * 16, b"b" * 16


def looks(membership: Membership, beats: dict[bytes, int], since: int, ms: int) -> int:
    """Look as often as a broker does, and see the same each time."""
    for at in range(since, since + ms + 1, BEAT_MS):
        membership.observe(beats, at)
    return since + ms


def test_broker_is_alive_when_it_is_first_seen() -> None:
    membership = Membership()
    membership.observe({A: 7}, 1_000_000)
    assert membership.alive() == {A}
    assert membership.silent() == set()


def test_broker_whose_beat_rises_stays_alive() -> None:
    membership = Membership()
    for beat in range(20):
        membership.observe({A: beat}, beat * BEAT_MS)
    assert membership.alive() == {A}


def test_broker_is_silent_when_its_beat_did_not_rise_for_a_term() -> None:
    membership = Membership()
    at = looks(membership, {A: 7, B: 1}, 0, TERM_MS - BEAT_MS)
    assert membership.alive() == {A, B}
    membership.observe({A: 7, B: 2}, at + BEAT_MS)
    assert membership.alive() == {B}
    assert membership.silent() == {A}
    assert membership.silent_ms(A) == TERM_MS


def test_silent_broker_that_is_heard_of_again_is_alive() -> None:
    membership = Membership()
    at = looks(membership, {A: 7}, 0, 2 * TERM_MS)
    assert membership.silent() == {A}
    membership.observe({A: 8}, at + BEAT_MS)
    assert membership.alive() == {A}


def test_observer_that_was_stopped_itself_gives_others_their_term() -> None:
    membership = Membership()
    membership.observe({A: 7}, 0)
    membership.observe({A: 7}, 100 * TERM_MS)
    assert membership.alive() == {A}
    looks(membership, {A: 7}, 100 * TERM_MS + BEAT_MS, TERM_MS)
    assert membership.silent() == {A}


def test_withdrawn_broker_is_forgotten() -> None:
    membership = Membership()
    looks(membership, {A: 7, B: 7}, 0, TERM_MS)
    membership.observe({B: 8}, TERM_MS + BEAT_MS)
    assert membership.alive() == {B}
    assert membership.silent() == set()
    assert membership.silent_ms(A) == 0


def test_broker_whose_process_is_gone_is_silent_at_once() -> None:
    membership = Membership()
    membership.observe({A: 7, B: 7}, 0)
    membership.lose([A, b"unknown"])
    assert membership.alive() == {B}
    assert membership.silent() == {A}
