"""The rate of a syphon."""

from twinbus.pairing.syphon.tally import Tally


def test_the_rate_is_that_of_the_last_seconds() -> None:
    tally = Tally()
    assert tally.rate(0) == 0
    for second in range(20):
        tally.count_restored(100, second * 1000)
    assert tally.restored == 2_000
    assert 100 <= tally.rate(19_000) <= 112
    assert tally.rate(60_000) == 0


def test_the_rate_of_a_drain_that_has_just_begun() -> None:
    tally = Tally()
    tally.count_restored(500, 1_000_000)
    assert tally.rate(1_000_010) == 500
