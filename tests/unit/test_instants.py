"""Instants as milliseconds, and as `datetime`."""

from datetime import UTC, datetime, timedelta, timezone

from twinbus.instants import instant_ms, instant_of


def test_milliseconds_survive_the_way_there_and_back() -> None:
    for at in (0, 1, 999, 1_700_000_000_123, 253_402_300_799_999):
        assert instant_ms(instant_of(at)) == at
    assert instant_of(0) == datetime(1970, 1, 1, tzinfo=UTC)


def test_an_instant_without_a_time_zone_is_utc() -> None:
    assert instant_ms(datetime(1970, 1, 1, 0, 0, 1)) == 1_000


def test_the_time_zone_of_an_instant_counts() -> None:
    east = timezone(timedelta(hours=1))
    assert instant_ms(datetime(1970, 1, 1, 1, 0, 1, tzinfo=east)) == 1_000
