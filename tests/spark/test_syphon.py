"""S2: Spark brings a backlog back."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pairs.syphon_world import (
    PATIENCE_SECONDS,
    PRIMARY,
    backlog,
    diverted,
    encoded,
    killed_before_it_settles,
    own_syphon,
    running,
    until,
)
from pyspark.sql import SparkSession

from twinbus.pairing.detour import PATH
from twinbus.spark.syphon import Summary, run_syphon
from twinbus.spark.syphon.errors import NotOffered, SideAway, SideRefuses
from twinbus.spark.syphon.running import SyphonRun
from twinbus.testing import Bus

from .running import until as wait_for
from .syphon_pair import (
    ENTITIES,
    QUEUES,
    Pair,
    Verdict,
    audit,
    bodies,
    content,
    divert_load,
    entity,
    load,
    side_of,
)

DEAD = f"{backlog(0)}/$deadletterqueue"


@pytest.fixture
def buses() -> Iterator[tuple[Bus, Bus]]:
    with Bus() as primary, Bus() as secondary:
        for index in range(QUEUES):
            secondary.create_queue(backlog(index))
        yield primary, secondary


@pytest.fixture
def pair(buses: tuple[Bus, Bus], tmp_path: Path) -> Pair:
    primary, secondary = buses
    return Pair(side_of(primary, tmp_path / "a"), side_of(secondary, tmp_path / "b"))


def make_entities(primary: Bus) -> None:
    for index in range(ENTITIES):
        primary.create_queue(entity(index), requires_session=True)


# --- once, and in order -------------------------------------------------------------


def test_a_backlog_is_restored_once_and_in_order(
    spark: SparkSession, buses: tuple[Bus, Bus], pair: Pair
) -> None:
    make_entities(buses[0])
    messages = load(600)
    divert_load(pair, messages)
    # Beside the backlog queues, and none of them.
    buses[1].create_queue(f"{PRIMARY}/x-servicebus-transfer/lease")
    pair.divert(0, [])
    summary = run_syphon(spark, pair.options(max_messages=100))
    assert audit(pair.primary, messages) == Verdict(600, 0, 0, 0)
    assert pair.backlog_counts() == (0, 0)
    assert (summary.restored, summary.known, summary.left) == (600, 0, 0)
    assert len(summary.queues) == QUEUES
    assert not summary.is_backlog_left
    # What came at one instant is in one batch, so there may be fewer than six.
    assert summary.batches > 1


def test_a_session_keeps_its_order_from_queue_to_queue(
    spark: SparkSession, buses: tuple[Bus, Bus], pair: Pair
) -> None:
    """A sender whose queue was full goes on with another one."""
    buses[0].create_queue(entity(0), requires_session=True)
    messages = [(entity(0), "s", f"{at:02}") for at in range(20)]
    for at, (path, session, body) in enumerate(messages):
        pair.divert(at * 7 % QUEUES, [diverted(path, body, session_id=session)])
    run_syphon(spark, pair.options(max_messages=6))
    assert audit(pair.primary, messages) == Verdict(20, 0, 0, 0)


def test_a_backlog_that_grows_is_emptied_all_the_same(
    spark: SparkSession, buses: tuple[Bus, Bus], pair: Pair
) -> None:
    make_entities(buses[0])
    messages = load(200)
    divert_load(pair, messages)
    later = iter([load(200, first=200), load(200, first=400)])

    def grow(summary: Summary) -> None:
        """Once while the first batches are restored, once when nearly all are."""
        if summary.restored >= len(messages) - 150:
            for more in [next(later, [])]:
                divert_load(pair, more)
                messages.extend(more)

    summary = run_syphon(spark, pair.options(max_messages=50), grow)
    assert len(messages) == 600
    assert audit(pair.primary, messages) == Verdict(600, 0, 0, 0)
    assert (summary.restored, pair.backlog_counts()) == (600, (0, 0))


def test_the_session_is_left_as_it_was(spark: SparkSession, pair: Pair) -> None:
    rows = "spark.sql.execution.arrow.maxRecordsPerBatch"
    given = str(spark.conf.get(rows))
    spark.conf.set(rows, "777")
    try:
        assert run_syphon(spark, pair.options()).restored == 0
        assert spark.conf.get(rows) == "777"
    finally:
        spark.conf.set(rows, given)


# --- what a message gets back -------------------------------------------------------


def test_a_message_is_what_it_was_before_its_detour(
    spark: SparkSession, buses: tuple[Bus, Bus], pair: Pair
) -> None:
    primary, secondary = buses
    primary.create_queue("orders", requires_session=True)
    primary.create_queue("later")
    due = secondary.clock.now() + 3_600_000
    pair.divert(
        3,
        [
            diverted(
                "Orders",
                "one",
                session_id="blue",
                time_to_live_ms=60_000,
                own={"count": 5, "x-ms-path": "my own"},
            ),
            diverted("later", "two", scheduled_at=due),
        ],
    )
    assert run_syphon(spark, pair.options()).restored == 2
    [first] = content(pair.primary, "orders")["orders"]
    assert (first.session, first.body) == ("blue", "one")
    assert first.row["time_to_live_ms"] == 60_000
    kept = dict(first.row["application_properties"])
    assert kept == {"count": "5", "x-ms-path": "my own"}
    [second] = content(pair.primary, "later", ("scheduled",))["later"]
    assert second.row["scheduled_time"].timestamp() * 1000 == due


def test_the_time_in_the_backlog_may_count(
    spark: SparkSession, buses: tuple[Bus, Bus], pair: Pair
) -> None:
    """The clocks of these buses are ahead of that of Spark: the message is as old as it
    is only if it was enqueued long ago."""
    primary, secondary = buses
    primary.create_queue("orders")
    secondary.clock.advance(-2 * 3_600_000)
    pair.divert(0, [diverted("orders", "old", time_to_live_ms=60_000)])
    secondary.clock.advance(2 * 3_600_000)
    summary = run_syphon(spark, pair.options(counts_backlog=True))
    assert summary.dead_lettered == {"TTLExpiredException": 1}
    assert bodies(pair.primary, "orders") == []


# --- what cannot be restored --------------------------------------------------------


def test_poison_becomes_dead_letters_and_the_rest_goes_on(
    spark: SparkSession, buses: tuple[Bus, Bus], pair: Pair
) -> None:
    primary, _ = buses
    primary.create_queue("orders")
    primary.create_queue("sessions", requires_session=True)
    primary.create_queue("secret")
    primary.create_queue("small", max_message_size_in_kilobytes=100)
    pair.divert(
        0,
        [
            diverted("orders", "first"),
            encoded({}, b"no path"),
            encoded({PATH: "$management"}, b"no entity"),
            diverted("secret", "not covered"),
            diverted("missing", "no such entity"),
            diverted("sessions", "no session"),
            diverted("small", "x" * 200_000),
            diverted("orders", "last"),
        ],
    )
    cover = ("orders", "s*s", "small", "missing")
    summary = run_syphon(spark, pair.options(cover=cover))
    assert sorted(bodies(pair.primary, "orders")) == ["first", "last"]
    assert summary.dead_lettered == {
        "InvalidPath": 1,
        "MessageRefused": 1,
        "MessageSizeExceeded": 1,
        "MessagingEntityNotFound": 1,
        "MissingPath": 1,
        "PathNotCovered": 1,
    }
    assert summary.is_backlog_left
    [dead] = content(pair.secondary, DEAD).values()
    assert {one.row["dead_letter_reason"] for one in dead} == {*summary.dead_lettered}
    assert pair.backlog_counts() == (0, 0)


def test_an_entity_that_does_not_exist_may_be_waited_for(
    spark: SparkSession, buses: tuple[Bus, Bus], pair: Pair
) -> None:
    pair.divert(0, [diverted("orders", str(at)) for at in range(3)])
    options = pair.options(missing_entity_grace_ms=3_600_000)
    assert run_syphon(spark, options).parked == {"orders": 3}
    buses[0].create_queue("orders")
    assert run_syphon(spark, options).restored == 3
    assert sorted(bodies(pair.primary, "orders")) == ["0", "1", "2"]


# --- what has to wait ---------------------------------------------------------------


def sessions_of(path: str, numbers: range) -> list[bytes]:
    return [diverted(path, f"{at:03}", session_id="s") for at in numbers]


def test_a_disabled_entity_is_parked_and_comes_back_in_order(
    spark: SparkSession, buses: tuple[Bus, Bus], pair: Pair
) -> None:
    primary, _ = buses
    for path in ("orders", "billing"):
        primary.create_queue(path, requires_session=True)
    primary.update_queue("orders", status="SendDisabled")
    for index in range(3):
        pair.divert(index, sessions_of("orders", range(index * 10, index * 10 + 10)))
    pair.divert(0, sessions_of("billing", range(5)))
    first = run_syphon(spark, pair.options(max_messages=12))
    assert (first.restored, first.parked) == (5, {"orders": 30})
    assert (pair.backlog_counts(), first.is_backlog_left) == ((0, 30), True)
    # Another one comes behind them, and must not overtake.
    pair.divert(7, sessions_of("orders", range(30, 35)))
    again = run_syphon(spark, pair.options())
    assert (again.restored, again.parked) == (0, {"orders": 35})
    primary.update_queue("orders", status="Active")
    pair.divert(1, sessions_of("orders", range(35, 40)))
    last = run_syphon(spark, pair.options())
    assert (last.restored, last.parked) == (40, {})
    assert bodies(pair.primary, "orders") == [f"{at:03}" for at in range(40)]
    assert pair.backlog_counts() == (0, 0)


async def test_what_another_syphon_parked_is_brought_back(
    spark: SparkSession, buses: tuple[Bus, Bus], pair: Pair
) -> None:
    primary, secondary = buses
    primary.create_queue("orders", requires_session=True)
    primary.update_queue("orders", status="SendDisabled")
    await asyncio.to_thread(pair.divert, 0, sessions_of("orders", range(20)))
    async with running(own_syphon(primary, secondary)):
        await until(lambda: pair.backlog_counts() == (0, 20))
    primary.update_queue("orders", status="Active")
    await asyncio.to_thread(pair.divert, 0, sessions_of("orders", range(20, 25)))
    summary = await asyncio.to_thread(run_syphon, spark, pair.options())
    assert (summary.restored, summary.parked) == (25, {})
    assert bodies(pair.primary, "orders") == [f"{at:03}" for at in range(25)]


def test_a_parked_message_that_is_poison_by_now_is_a_dead_letter(
    spark: SparkSession, buses: tuple[Bus, Bus], pair: Pair
) -> None:
    primary, _ = buses
    primary.create_queue("orders", status="SendDisabled")
    pair.divert(0, [diverted("orders", "without a session")])
    assert run_syphon(spark, pair.options()).parked == {"orders": 1}
    primary.delete_queue("orders")
    primary.create_queue("orders", requires_session=True)
    summary = run_syphon(spark, pair.options())
    assert summary.dead_lettered == {"MessageRefused": 1}
    assert pair.backlog_counts() == (0, 0)


# --- several at once ----------------------------------------------------------------


async def test_what_was_restored_before_is_known(
    spark: SparkSession, buses: tuple[Bus, Bus], pair: Pair
) -> None:
    """Another syphon sent it, and died before it settled: its locks are revoked."""
    make_entities(buses[0])
    messages = load(50)
    await asyncio.to_thread(divert_load, pair, messages)
    syphon = own_syphon(*buses)
    await killed_before_it_settles(syphon)
    await until(lambda: audit(pair.primary, messages).lost == 0)
    await syphon.close(at_once=True)
    summary = await asyncio.to_thread(run_syphon, spark, pair.options())
    assert (summary.restored, summary.known) == (0, 50)
    assert audit(pair.primary, messages) == Verdict(50, 0, 0, 0)
    assert pair.backlog_counts() == (0, 0)


def test_two_at_once_restore_once(
    spark: SparkSession, buses: tuple[Bus, Bus], pair: Pair
) -> None:
    make_entities(buses[0])
    messages = load(300)
    divert_load(pair, messages)
    with ThreadPoolExecutor(2) as pool:
        runs = [
            pool.submit(run_syphon, spark, pair.options(max_messages=60))
            for _ in range(2)
        ]
        summaries = [run.result() for run in runs]
    assert audit(pair.primary, messages) == Verdict(300, 0, 0, 0)
    assert sum(summary.restored for summary in summaries) == 300
    assert pair.backlog_counts() == (0, 0)


async def test_beside_the_other_syphon_it_restores_once(
    spark: SparkSession, buses: tuple[Bus, Bus], pair: Pair
) -> None:
    make_entities(buses[0])
    messages = load(400)
    await asyncio.to_thread(divert_load, pair, messages)
    job = asyncio.to_thread(run_syphon, spark, pair.options(max_messages=50))
    async with running(own_syphon(*buses)) as other:
        await job
        await until(lambda: pair.backlog_counts() == (0, 0))
        assert other.status().poison == 0
    assert audit(pair.primary, messages)[:3] == (400, 0, 0)


# --- sides that are away ------------------------------------------------------------


def test_a_primary_that_dies_during_the_drain_is_waited_for(
    spark: SparkSession, buses: tuple[Bus, Bus], pair: Pair
) -> None:
    primary, _ = buses
    make_entities(primary)
    messages = load(300)
    divert_load(pair, messages)
    outage = threading.Event()

    def die(summary: Summary) -> None:
        """For a while, in the middle."""
        if summary.restored >= 50 and not outage.is_set():
            outage.set()
            primary.stop()
            threading.Timer(2, primary.start).start()

    summary = run_syphon(spark, pair.options(max_messages=50), die)
    assert outage.is_set()
    assert audit(pair.primary, messages) == Verdict(300, 0, 0, 0)
    assert summary.restored + summary.known == 300
    assert pair.backlog_counts() == (0, 0)


def test_a_primary_that_stays_away_ends_the_run_and_loses_nothing(
    spark: SparkSession, buses: tuple[Bus, Bus], pair: Pair
) -> None:
    primary, _ = buses
    make_entities(primary)
    messages = load(200)
    divert_load(pair, messages)

    def die(summary: Summary) -> None:
        if summary.restored >= 50:
            primary.stop()

    with pytest.raises(SideAway, match="The primary"):
        run_syphon(spark, pair.options(max_messages=50, timeout_ms=1_000), die)
    primary.start()
    # Nothing was deferred because of it, and the queues are free for the next run.
    assert pair.backlog_counts()[1] == 0
    run_syphon(spark, pair.options())
    assert audit(pair.primary, messages) == Verdict(200, 0, 0, 0)


def test_a_continuous_run_goes_on_until_it_is_told_to_stop(
    spark: SparkSession, buses: tuple[Bus, Bus], pair: Pair
) -> None:
    primary, _ = buses
    primary.create_queue("orders", requires_session=True)
    run = SyphonRun(spark, pair.options(is_continuous=True, timeout_ms=1_000))
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(run.main)
        try:
            pair.divert(0, sessions_of("orders", range(5)))
            wait_for(lambda: len(bodies(pair.primary, "orders")) == 5)
            primary.stop()
            pair.divert(1, sessions_of("orders", range(5, 10)))
            primary.start()
            wait_for(lambda: len(bodies(pair.primary, "orders")) == 10)
            primary.update_queue("orders", status="SendDisabled")
            pair.divert(2, sessions_of("orders", range(10, 15)))
            wait_for(lambda: pair.backlog_counts() == (0, 5))
            # Nothing new comes, and it is noticed all the same.
            primary.update_queue("orders", status="Active")
            wait_for(lambda: len(bodies(pair.primary, "orders")) == 15)
        finally:
            run.stop()
        summary = ended.result(PATIENCE_SECONDS)
    assert (summary.restored, summary.parked, summary.left) == (15, {}, 0)
    assert bodies(pair.primary, "orders") == [f"{at:03}" for at in range(15)]


def test_a_continuous_run_waits_for_its_sides_and_tells_of_each_outage(
    spark: SparkSession,
    buses: tuple[Bus, Bus],
    pair: Pair,
    caplog: pytest.LogCaptureFixture,
) -> None:
    primary, _ = buses
    primary.create_queue("orders", requires_session=True)

    def told_count() -> int:
        return caplog.text.count("the syphon waits: The primary")

    primary.stop()
    run = SyphonRun(spark, pair.options(is_continuous=True, timeout_ms=1_000))
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(run.main)
        try:
            for outage in range(3):
                pair.divert(outage, sessions_of("orders", range(outage, outage + 1)))
                wait_for(lambda count=outage + 1: told_count() == count)
                primary.start()
                wait_for(
                    lambda count=outage + 1: (
                        len(bodies(pair.primary, "orders")) == count
                    )
                )
                primary.stop()
        finally:
            primary.start()
            run.stop()
        summary = ended.result(PATIENCE_SECONDS)
    assert summary.restored + summary.known >= 3
    assert bodies(pair.primary, "orders") == ["000", "001", "002"]


# --- sides that will not do ---------------------------------------------------------


@pytest.mark.parametrize("side", ["primary", "secondary"])
def test_a_namespace_that_is_not_twinbus_is_named(
    spark: SparkSession, pair: Pair, tmp_path: Path, side: str
) -> None:
    with Bus(store="memory", settings={"strict": True}) as strict:
        sides = {
            "primary": pair.primary,
            "secondary": pair.secondary,
            side: side_of(strict, tmp_path / "strict"),
        }
        with pytest.raises(NotOffered, match=f"The {side} .* not twinbus, or strict"):
            run_syphon(spark, Pair(**sides).options())


def test_a_namespace_of_the_vendor_is_not_waited_for(
    spark: SparkSession, pair: Pair
) -> None:
    pair.primary.file.write_text(
        "Endpoint=sb://site-a.servicebus.windows.net/;SharedAccessKeyName=name;"
        "SharedAccessKey=key"
    )
    with pytest.raises(NotOffered, match=r"The primary https://site-a\.servicebus"):
        run_syphon(spark, pair.options(timeout_ms=3_600_000))


def test_rights_to_send_here_and_to_listen_there_are_enough(
    spark: SparkSession, buses: tuple[Bus, Bus], pair: Pair
) -> None:
    buses[0].create_queue("orders")
    pair.divert(0, [diverted("orders", "one")])
    pair.primary.file.write_text(buses[0].connection_string_for("Send"))
    pair.secondary.file.write_text(buses[1].connection_string_for("Listen"))
    assert run_syphon(spark, pair.options()).restored == 1


def test_a_key_that_may_not_listen_is_told(
    spark: SparkSession, buses: tuple[Bus, Bus], pair: Pair
) -> None:
    """To it there are no backlog queues, and that is not an empty backlog."""
    pair.secondary.file.write_text(buses[1].connection_string_for("Send"))
    with pytest.raises(SideRefuses, match=r"The secondary: .*'Listen'"):
        run_syphon(spark, pair.options())


def test_a_wrong_key_is_told(spark: SparkSession, pair: Pair) -> None:
    pair.secondary.file.write_text(
        pair.secondary.connection_string.replace(pair.secondary.key, "wrong")
    )
    with pytest.raises(SideRefuses, match="The secondary"):
        run_syphon(spark, pair.options())
