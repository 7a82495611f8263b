"""Options of a read: valid values, and errors with the option's name and a remedy."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from twinbus.spark.option_reader import OptionError
from twinbus.spark.read_options import (
    READ_OPTIONS,
    ReadBounds,
    ReadOptions,
    read_options,
)
from twinbus.spark.schema import COLUMNS

GIVEN = {"credential": "env:BUS", "entities": "orders"}


def batch(**options: str) -> ReadOptions:
    return read_options({**GIVEN, **options}, is_stream=False)


def stream(**options: str) -> ReadOptions:
    return read_options({**GIVEN, **options}, is_stream=True)


def test_names_do_not_depend_on_case() -> None:
    assert stream(MAXMESSAGESPERBATCH="5").max_messages == 5


def test_entities_may_be_the_path_that_is_loaded() -> None:
    read = read_options({"credential": "env:B", "path": "orders"}, is_stream=False)
    assert read.entities == ("orders",)


def test_entities_are_separated_by_commas() -> None:
    paths = " orders , t/subscriptions/s,/orders/$deadletterqueue/"
    assert batch(entities=paths).entities == (
        "orders",
        "t/subscriptions/s",
        "orders/$deadletterqueue",
    )


@pytest.mark.parametrize(
    ("text", "size"),
    [("1024", 1024), ("512k", 512 << 10), ("256m", 256 << 20), ("4 GiB", 4 << 30)],
)
def test_sizes_have_units(text: str, size: int) -> None:
    assert stream(maxBytesPerBatch=text).max_bytes == size


@pytest.mark.parametrize(
    ("text", "ms"), [("30", 30_000), ("30s", 30_000), ("5m", 300_000), ("PT1M", 60_000)]
)
def test_durations_have_units(text: str, ms: int) -> None:
    assert stream(leaseDuration=text).lease_ms == ms


@pytest.mark.parametrize(
    ("text", "hour"),
    [
        ("2026-11-16T08:00:00Z", 8),
        ("2026-11-16T08:00:00", 8),
        ("2026-11-16T08:00:00+02:00", 6),
        ("2026-11-16", 0),
    ],
)
def test_times_are_utc_unless_they_say_otherwise(text: str, hour: int) -> None:
    expected = datetime(2026, 11, 16, hour, tzinfo=UTC)
    assert batch(startTime=text).bounds.start_time == expected.timestamp() * 1000


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2004-05-15T05:35:21.485Z", 1_084_599_321_485),
        ("2026-11-16T08:00:00.000001Z", 1_794_816_000_001),
        ("1960-01-01", 0),
    ],
)
def test_times_are_whole_milliseconds_of_the_epoch(text: str, ms: int) -> None:
    assert batch(endTime=text).bounds.end_time == ms


def test_columns_are_chosen_in_the_order_of_the_schema() -> None:
    everything = tuple(COLUMNS)
    assert batch().columns == everything[:-1]
    assert batch(includeRaw="true").columns == everything
    assert batch(columns="body, entity").columns == ("entity", "body")
    assert batch(columns="raw").columns == ("raw",)
    header = batch(columns="header").columns
    assert set(everything) - set(header) == {
        *("application_properties", "application_property_types"),
        *("body", "amqp_types", "raw"),
    }


def test_who_only_looks_must_expect_others_to_take() -> None:
    assert not stream().fails_on_loss
    assert stream(settlement="exclusive").fails_on_loss
    assert stream(failOnDataLoss="true").fails_on_loss
    assert not stream(settlement="exclusive", failOnDataLoss="FALSE").fails_on_loss


def test_a_lease_is_waited_for_until_it_must_have_ended() -> None:
    read = stream(leaseDuration="20s")
    assert read.lease_wait_ms > read.lease_ms


def test_what_spark_hands_on_is_no_matter() -> None:
    options = {"checkpointLocation": "/c", "queryName": "q", "spark.x": "y"}
    assert stream(**options).entities == ("orders",)


WRONG_ANYWHERE = [
    ("maxPartitions", "0", "from 1 to"),
    ("maxPartitions", "many", "a whole number"),
    ("maxPartitions", "-1", "a whole number"),
    ("columns", "body,bodies", "'bodies'"),
    ("columns", ",", "it must be all, header"),
    ("includeRaw", "maybe", "one of true, false"),
    ("failOnDataLoss", "yes", "one of auto, true, false"),
    ("settlement", "complete", "one of browse, exclusive, defer"),
    ("timeout", "soon", "a duration, such as 30s"),
    ("timeout", "1ms", "from 1 to"),
    ("namespace", "bus.example", "the address of the bus"),
    ("namespace", "ftp://bus.example", "the address of the bus"),
    ("namespace", "https://bus.example/x", "the address of the bus"),
    ("namespace", "https://u:p@bus.example", "the address of the bus"),
    ("caFile", "/not/there", "cannot be read"),
    ("fromSequence", "1.5", "a whole number"),
    ("fromSequence", "9" * 19, "from 0 to"),
    ("startTime", "yesterday", "ISO 8601"),
    ("entities", "a,,b", "an empty path"),
    ("entities", "a,A", "twice"),
]

WRONG_IN_BATCHES = [
    ("settlement", "exclusive", "only streams"),
    ("settlement", "defer", "only streams"),
    ("states", "active,gone", "'gone'"),
    ("sessions", ",".join(map(str, range(101))), "101 ids; at most 100"),
    ("sessions", "a,,b", "1 to 128 printable characters"),
    ("sessions", "s" * 129, "1 to 128 printable characters"),
    ("pushFilters", "yes", "one of true, false"),
    ("toSequence", "x", "a whole number"),
    ("endTime", "x", "ISO 8601"),
]

WRONG_IN_STREAMS = [
    ("toSequence", "5", "for batches"),
    ("endTime", "2026-01-01", "for batches"),
    ("states", "deferred", "for batches"),
    ("sessions", "a", "for batches"),
    ("pushFilters", "true", "for batches"),
    ("startingPosition", "middle", "one of earliest, latest"),
    ("maxMessagesPerBatch", "0", "from 1 to"),
    ("maxBytesPerBatch", "lots", "a size, such as 256m"),
    ("maxBytesPerBatch", "0", "from 1 to"),
    ("leaseDuration", "1s", "from 5 to"),
    ("leaseWait", "-1", "a duration"),
    ("alignment", "left", "one of none, time"),
    ("readerId", "r" * 129, "at most 128"),
    ("adoptDeferred", "some", "one of own, all"),
]


@pytest.mark.parametrize(("name", "value", "remedy"), WRONG_ANYWHERE + WRONG_IN_BATCHES)
def test_a_wrong_option_of_a_batch_is_told(name: str, value: str, remedy: str) -> None:
    with pytest.raises(OptionError, match=f"(?s)'{name}'.*{remedy}"):
        batch(**{name: value})


@pytest.mark.parametrize(("name", "value", "remedy"), WRONG_ANYWHERE + WRONG_IN_STREAMS)
def test_a_wrong_option_of_a_stream_is_told(name: str, value: str, remedy: str) -> None:
    with pytest.raises(OptionError, match=f"(?s)'{name}'.*{remedy}"):
        stream(**{name: value})


def test_every_option_has_a_wrong_value_here() -> None:
    tried = {name for name, *_ in WRONG_ANYWHERE + WRONG_IN_BATCHES + WRONG_IN_STREAMS}
    # A pattern is the bus's to judge.
    assert set(READ_OPTIONS) - tried == {"entityPattern"}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"entities": "a", "entityPattern": "*"}, "either 'entities'.*'entityPattern'"),
        ({}, "either 'entities'.*'entityPattern'"),
        (
            {"entities": "a", "fromSequence": "1", "startTime": "2026-01-01"},
            "either 'fromSequence' or 'startTime'",
        ),
        (
            {"entities": "a", "toSequence": "1", "endTime": "2026-01-01"},
            "either 'toSequence' or 'endTime'",
        ),
        (
            {"entities": "a", "connectionString": "x"},
            "either 'credential'.*'connectionString'",
        ),
    ],
)
def test_options_that_contradict_each_other_are_told(
    options: dict[str, str], told: str
) -> None:
    with pytest.raises(OptionError, match=told):
        read_options({"credential": "env:B", **options}, is_stream=False)


def test_without_any_credential_it_is_told() -> None:
    with pytest.raises(OptionError, match="either 'credential'"):
        read_options({"entities": "orders"}, is_stream=False)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("maxMessagePerBatch", "maxMessagesPerBatch"),
        ("entity", "entities"),
        ("credentials", "credential"),
        ("failOnDataloss", None),
    ],
)
def test_an_option_that_nobody_knows_is_told_with_what_was_meant(
    name: str, meant: str | None
) -> None:
    if meant is None:
        assert batch(**{name: "true"}).fails_on_loss
        return
    with pytest.raises(OptionError, match=f"Did you mean '{meant}'"):
        batch(**{name: "1"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("connectionStrin", "Endpoint=sb://b;SharedAccessKey=very-secret-key"),
        ("namespace", "Endpoint=sb://b;SharedAccessKey=very-secret-key"),
        ("namespace", "https://user:very-secret-key@bus.example"),
        ("entities", "Endpoint=sb://b;SharedAccessKey=very-secret-key"),
        ("fromSequence", "SharedAccessSignature sr=b&sig=very-secret-key"),
    ],
)
def test_a_secret_in_a_wrong_place_is_not_repeated(name: str, value: str) -> None:
    with pytest.raises(OptionError) as refused:
        batch(**{name: value})
    assert "very-secret-key" not in str(refused.value)


def test_certificates_that_are_none_are_told(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    with pytest.raises(OptionError, match="'caFile'"):
        batch(caFile=str(tmp_path / "ca.pem"))


def test_sessions_are_named_once() -> None:
    assert batch().sessions is None
    assert batch(sessions="b, a,b").sessions == ("b", "a")


def test_bounds_are_narrowed_by_others() -> None:
    one = ReadBounds(from_sequence=3, to_sequence=9, start_time=5)
    other = ReadBounds(from_sequence=5, to_sequence=12, end_time=7)
    assert one.narrowed(other) == other.narrowed(one)
    assert one.narrowed(other) == ReadBounds(
        from_sequence=5, to_sequence=9, start_time=5, end_time=7
    )
    assert one.narrowed(ReadBounds()) == one


@pytest.mark.parametrize("options", [{}, {"provider": "servicebus", "owner": "me"}])
def test_a_table_of_the_catalog_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(OptionError, match="CREATE TEMPORARY VIEW"):
        read_options(options, is_stream=False)
