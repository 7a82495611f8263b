"""The properties of a diverted message: written and read back."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinbus.pairing.detour import (
    OWN_PREFIX,
    PATH,
    SCHEDULED,
    SESSION_ID,
    TIME_TO_LIVE,
    Detour,
    DetourError,
    diverted_properties,
    read_detour,
    restored_from,
    restored_properties,
)

NAMES = (PATH, SESSION_ID, TIME_TO_LIVE, SCHEDULED)
names = st.one_of(
    st.text(max_size=10),
    st.sampled_from(NAMES),
    st.builds(
        lambda n, name: OWN_PREFIX * n + name, st.integers(1, 3), st.sampled_from(NAMES)
    ),
    st.just(OWN_PREFIX),
)
paths = st.text(min_size=1, max_size=20).filter(lambda path: path.strip("/") == path)
detours = st.builds(
    Detour,
    path=paths,
    session_id=st.none() | st.text(max_size=20),
    time_to_live_ms=st.none() | st.integers(1, 10**13),
    scheduled_at=st.none() | st.integers(1, 253_402_300_799_999),
)
values = st.text(max_size=5) | st.integers() | st.binary(max_size=5)


@given(properties=st.dictionaries(names, values, max_size=6), detour=detours)
def test_all_comes_back(properties: dict[str, object], detour: Detour) -> None:
    diverted = diverted_properties(properties, detour)
    assert read_detour(diverted) == detour
    assert restored_properties(diverted) == properties


@given(properties=st.dictionaries(names, values, max_size=6), detour=detours)
def test_a_message_may_be_diverted_twice(
    properties: dict[str, object], detour: Detour
) -> None:
    twice = diverted_properties(diverted_properties(properties, detour), detour)
    assert restored_properties(restored_properties(twice)) == properties


def test_values_have_the_types_of_the_original() -> None:
    detour = Detour(
        path="orders", session_id="s", time_to_live_ms=90_000, scheduled_at=1_000
    )
    assert diverted_properties({}, detour) == {
        PATH: "orders",
        SESSION_ID: "s",
        TIME_TO_LIVE: "PT1M30S",
        SCHEDULED: datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
    }


def test_what_a_message_does_not_have_is_not_written() -> None:
    assert diverted_properties({"mine": 1}, Detour(path="orders")) == {
        "mine": 1,
        PATH: "orders",
    }


@pytest.mark.parametrize(
    ("value", "expected_ms"),
    [
        ("PT90S", 90_000),
        ("P1DT1H", 90_000_000),
        (900_000_000, 90_000),
        ("00:01:30", 90_000),
        ("1.01:00:00", 90_000_000),
        ("00:00:00.5", 500),
        ("00:00:00.1234567", 123),
        (timedelta(seconds=90), 90_000),
        # The original's way to say that there is no end.
        ("P10675199DT2H48M5.4775807S", 0),
    ],
)
def test_time_to_live_is_read_in_every_form(value: object, expected_ms: int) -> None:
    assert read_detour({PATH: "q", TIME_TO_LIVE: value}).time_to_live_ms == expected_ms


@pytest.mark.parametrize(
    "value",
    [
        1_800_000_000_000,
        datetime(2027, 1, 15, 8, tzinfo=UTC),
        datetime(2027, 1, 15, 8),
        datetime(2027, 1, 15, 9, tzinfo=timezone(timedelta(hours=1))),
    ],
)
def test_instant_is_read_in_every_form(value: object) -> None:
    detour = read_detour({PATH: "q", SCHEDULED: value})
    assert detour.scheduled_at == 1_800_000_000_000


def test_slashes_around_a_path_do_not_matter() -> None:
    assert read_detour({PATH: "/shop/orders/"}).path == "shop/orders"


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {PATH: ""},
        {PATH: "//"},
        {PATH: 7},
        {PATH: b"orders"},
        {PATH: "q", SESSION_ID: 7},
        {PATH: "q", TIME_TO_LIVE: "soon"},
        {PATH: "q", TIME_TO_LIVE: True},
        {PATH: "q", TIME_TO_LIVE: -5},
        {PATH: "q", TIME_TO_LIVE: "99999999999.00:00:00"},
        {PATH: "q", SCHEDULED: "tomorrow"},
        {PATH: "q", SCHEDULED: True},
        {PATH: "q", SCHEDULED: -1},
    ],
)
def test_what_cannot_be_understood_is_said_so(properties: dict[str, Any]) -> None:
    with pytest.raises(DetourError):
        read_detour(properties)


def test_origin_is_a_text_of_three_parts() -> None:
    assert restored_from(7, 1_800, "south/north/x/0") == "7@1800@south/north/x/0"
