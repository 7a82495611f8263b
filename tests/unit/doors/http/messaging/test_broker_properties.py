"""BrokerProperties of senders, and the times in them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinbus.doors.http.messaging.broker_properties import (
    NONE_SET,
    BrokerProperties,
    broker_properties,
)
from twinbus.encoding.json_reading import read_json
from twinbus.errors import ArgumentError


def test_names_are_compared_ignoring_case() -> None:
    read = broker_properties({"MESSAGEID": "a", "label": "b", "ReplyTo": None})
    assert read == BrokerProperties(message_id="a", label="b")


def test_what_nobody_can_set_is_ignored() -> None:
    given = {"LockToken": 5, "SequenceNumber": "x", "Unknown": [], "DeliveryCount": 7}
    assert broker_properties(given) == NONE_SET


@pytest.mark.parametrize(
    ("given", "lasting_ms"),
    [
        ({"TimeToLive": 90}, 90_000),
        ({"TimeToLive": 0.5}, 500),
        ({"TimeToLive": 922337203685.4775}, 0),
        ({"TimeToLive": 1e300}, 0),
        ({"TimeToLiveTimeSpan": "00:00:10"}, 10_000),
        ({"TimeToLiveTimeSpan": "1.02:03:04.5"}, 93_784_500),
        ({"TimeToLiveTimeSpan": "10675199.02:48:05.4775807"}, 0),
        ({"TimeToLiveTimeSpan": "00:00:10", "TimeToLive": 5}, 10_000),
    ],
)
def test_times_to_live(given: dict[str, object], lasting_ms: int) -> None:
    assert broker_properties(given).time_to_live_ms == lasting_ms


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("Fri, 04 Jul 2014 22:34:06 GMT", 1_404_513_246_000),
        ("2014-07-04T22:34:06Z", 1_404_513_246_000),
        ("2014-07-04T22:34:06.250+02:00", 1_404_506_046_250),
        ("2014-07-04 22:34:06", 1_404_513_246_000),
    ],
)
def test_times_of_enqueueing(text: str, at: int) -> None:
    assert broker_properties({"ScheduledEnqueueTimeUtc": text}).scheduled_at == at


@given(
    st.dictionaries(
        st.sampled_from(
            ["TimeToLive", "TimeToLiveTimeSpan", "ScheduledEnqueueTimeUtc", "MessageId"]
        ),
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    )
)
def test_any_value_is_read_or_refused(given: dict[str, object]) -> None:
    try:
        read = broker_properties(given)
    except ArgumentError:
        return
    assert read.time_to_live_ms >= 0


@given(st.binary(max_size=200) | st.text(max_size=200))
def test_any_text_is_json_or_refused(text: str | bytes) -> None:
    try:
        read_json(text, "It")
    except ArgumentError as error:
        assert error.text.startswith("It is ")


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 100_000, "9" * 100_000])
def test_json_that_is_an_attack_is_refused(text: str) -> None:
    with pytest.raises(ArgumentError):
        read_json(text, "It")
