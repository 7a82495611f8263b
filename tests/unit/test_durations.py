"""Durations: what users may write, and how they are shown."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinbus.durations import duration_ms, iso_duration, readable_duration
from twinbus.limits import DURATION_MS_UNLIMITED

DURATIONS = st.integers(min_value=1, max_value=DURATION_MS_UNLIMITED - 1)


@pytest.mark.parametrize(
    ("written", "milliseconds"),
    [
        ("PT30S", 30_000),
        ("PT0.5S", 500),
        ("P1DT2H", 93_600_000),
        ("P7D", 604_800_000),
        ("30s", 30_000),
        ("1.25s", 1_250),
        ("5m", 300_000),
        ("1h30m", 5_400_000),
        ("7d", 604_800_000),
        (timedelta(minutes=1), 60_000),
    ],
)
def test_every_form_is_read(written: object, milliseconds: int) -> None:
    assert duration_ms(written) == milliseconds


@pytest.mark.parametrize(
    "written",
    [
        "unlimited",
        "P10675199DT2H48M5.4775807S",
        "P10675199D",
        timedelta.max,
        "PT" + "9" * 5_000 + "S",
    ],
)
def test_what_no_message_outlives_is_unlimited(written: object) -> None:
    assert duration_ms(written) == 0


@pytest.mark.parametrize(
    "written",
    ["", "P", "PT", "30", 30, True, "soon", "-5s", "30 s", "s", "PT30", "٣s", "1h 5m"],
)
def test_what_is_no_duration_is_refused_with_an_example(written: object) -> None:
    with pytest.raises(ValueError, match="is not a duration; write for instance PT30S"):
        duration_ms(written)


@pytest.mark.parametrize("written", ["PT0S", "0s", timedelta(0), timedelta(seconds=-1)])
def test_no_time_is_not_mistaken_for_unlimited(written: object) -> None:
    with pytest.raises(ValueError, match="not longer than a moment"):
        duration_ms(written)


@given(DURATIONS)
def test_what_is_shown_can_be_written(milliseconds: int) -> None:
    assert duration_ms(readable_duration(milliseconds)) == milliseconds
    assert duration_ms(iso_duration(milliseconds)) == milliseconds


@pytest.mark.parametrize(
    ("milliseconds", "readable", "iso"),
    [
        (0, "unlimited", "P10675199DT2H48M5.4775807S"),
        (30_000, "30s", "PT30S"),
        (1_050, "1.05s", "PT1.05S"),
        (86_400_000, "1d", "P1D"),
        (90_061_000, "1d1h1m1s", "P1DT1H1M1S"),
    ],
)
def test_durations_are_shown(milliseconds: int, readable: str, iso: str) -> None:
    assert readable_duration(milliseconds) == readable
    assert iso_duration(milliseconds) == iso
