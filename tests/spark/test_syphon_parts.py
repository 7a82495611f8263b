"""S2: the parts of the Spark syphon, without Spark."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pairs.syphon_world import backlog, diverted, encoded

from twinbus.amqp.messaging import decode_message
from twinbus.pairing.detour import RESTORED_FROM
from twinbus.spark.connection import SparkConnection
from twinbus.spark.packing import Range
from twinbus.spark.secret import Secret
from twinbus.spark.syphon.appending import Appending
from twinbus.spark.syphon.errors import SyphonError
from twinbus.spark.syphon.options import SyphonOptions
from twinbus.spark.syphon.outlet import MESSAGE_LIMIT_BYTES, BulkOutlet
from twinbus.spark.syphon.parked import Parked, ParkedSpan
from twinbus.spark.syphon.preparing import Preparation, paths_of
from twinbus.spark.syphon.reader_id import reader_id
from twinbus.testing import Bus

from .syphon_pair import Pair, bodies, content, side_of


@pytest.fixture
def primary() -> Iterator[Bus]:
    with Bus(store="memory") as bus:
        yield bus


def connection_to(bus: Bus) -> SparkConnection:
    return SparkConnection(secret=Secret(text=bus.connection_string))


# --- the id of the reader -----------------------------------------------------------


def test_a_checkpoint_has_one_reader(tmp_path: Path) -> None:
    first = reader_id(str(tmp_path / "one"), "site-a")
    assert first.startswith("spark-syphon/site-a/")
    assert reader_id(str(tmp_path / "one"), "site-a") == first
    assert reader_id((tmp_path / "one").as_uri(), "site-a") == first
    assert reader_id(str(tmp_path / "two"), "site-a") != first
    shared = reader_id("hdfs:///twinbus/one", "site-a")
    assert shared == reader_id("hdfs:///twinbus/one/", "site-a")
    assert shared != reader_id("hdfs:///twinbus/two", "site-a")


def test_a_checkpoint_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SyphonError, match="cannot be used"):
        reader_id(str(tmp_path / "file" / "folder"), "site-a")


# --- options ------------------------------------------------------------------------


def test_only_numbered_queues_of_the_primary_are_backlog_queues() -> None:
    options = SyphonOptions(primary="env:A", secondary="env:B", primary_name="site.a")
    assert options.is_backlog_queue("site.a/x-servicebus-transfer/12")
    assert options.is_backlog_queue("Site.A/X-ServiceBus-Transfer/0")
    for path in ("lease", "1/2", "1a", "", "٣"):
        assert not options.is_backlog_queue(f"site.a/x-servicebus-transfer/{path}")
    assert not options.is_backlog_queue("site-a/x-servicebus-transfer/0")


# --- the book of the parked ---------------------------------------------------------


def test_the_book_knows_entities_in_any_letter_case() -> None:
    book = Parked()
    book.note("q0", "Orders", [5, 9])
    book.note("q0", "orders", [2])
    book.note("q1", "ORDERS", [7])
    book.note("q1", "billing", [1, 3])
    book.note("q1", "nothing", [])
    assert book.counts() == {"ORDERS": 4, "billing": 2}
    assert book.bounds({"orders"}) == {"q0": (2, 9), "q1": (7, 7)}
    assert (book.count_in("q0"), book.count_in("q1"), book.count_in("q2")) == (3, 3, 0)
    book.forget_entities({"orders"})
    assert (book.counts(), book.queues()) == ({"billing": 2}, {"q1"})
    book.learn([ParkedSpan("q1", "billing", 0, 8, 3)])
    assert book.bounds({"billing"}) == {"q1": (0, 8)}
    book.forget_queue("q1")
    assert book.entities() == {}


# --- preparing ----------------------------------------------------------------------


def test_a_message_says_what_the_other_syphon_would_say(tmp_path: Path) -> None:
    """The same source and the same generation: either knows what the other did."""
    with Bus(store="memory") as secondary, Bus(store="memory") as primary:
        secondary.create_queue(backlog(0))
        side = side_of(secondary, tmp_path / "b")
        pair = Pair(side_of(primary, tmp_path / "a"), side)
        pair.divert(0, [diverted("orders", "one", session_id="s")])
        created_at = secondary.server.namespace.entity(backlog(0)).created_at
        [found] = content(side, backlog(0))[backlog(0)]
        raw = raw_of(side, found.row["sequence_number"])
    preparation = Preparation(
        secondary_name="localhost",
        generations={backlog(0): created_at},
        cover=(),
        counts_backlog=False,
    )
    number = found.row["sequence_number"]
    [row] = preparation.column(
        pa.array([backlog(0)]), pa.array([number]), pa.array([raw])
    ).to_pylist()
    assert (row["path"], row["entity"], row["lane"]) == (
        "orders",
        "orders",
        "session s",
    )
    annotations = decode_message(row["message"]).message_annotations
    assert annotations is not None
    origin = f"{number}@{created_at}@localhost/{backlog(0)}"
    assert annotations[RESTORED_FROM] == origin
    assert paths_of(pa.array([raw])).to_pylist() == ["orders"]


def raw_of(side: Any, number: int) -> bytes:
    client = side.client()
    try:
        [entity] = client.runtime([backlog(0)])[0]
        one = Range(
            path=entity.path,
            generation=entity.generation,
            fragment=0,
            first=number,
            end=number + 1,
            message_count=1,
            size_bytes=0,
        )
        [batch] = client.browse(one, ("raw",))
        raw: bytes = batch.column("raw")[0].as_py()
        return raw
    finally:
        client.close()


def test_what_no_bus_would_send_is_a_dead_letter_and_not_the_end() -> None:
    preparation = Preparation(
        secondary_name="b", generations={"q": 1}, cover=(), counts_backlog=False
    )
    raws = [b"\x00\x53\x72", b"", encoded({}, b"no number")]
    rows = preparation.column(
        pa.array(["q"] * 3), pa.array([1, 2, 3]), pa.array(raws, pa.binary())
    ).to_pylist()
    assert [row["reason"] for row in rows] == ["InvalidMessage"] * 3
    assert [row["message"] for row in rows] == [None] * 3
    assert paths_of(pa.array(raws, pa.binary())).to_pylist() == [""] * 3


# --- appending ----------------------------------------------------------------------


def columns(*rows: tuple[str, str]) -> tuple[pa.Array, ...]:
    """Paths and bodies, as `preparing` hands them on."""
    messages = [encoded({}, body.encode()) for _, body in rows]
    return (
        pa.array([path for path, _ in rows], pa.string()),
        pa.array([path.lower() for path, _ in rows], pa.string()),
        pa.array(messages, pa.binary()),
        pa.array([None] * len(rows), pa.string()),
        pa.array([None] * len(rows), pa.string()),
    )


def told(bus: Bus, *batches: tuple[pa.Array, ...], closed: str = "") -> list[list[str]]:
    """The fates of the rows, by batch; for those refused also why."""
    appending = Appending(
        primary=connection_to(bus), patience_ms=1_000, closed=frozenset([closed])
    )
    return [
        [f"{row['fate']} {row['reason']}".strip() for row in batch.to_pylist()]
        for batch in appending.columns(iter(batches))
    ]


def test_an_entity_that_refuses_is_closed_for_the_task(primary: Bus) -> None:
    primary.create_queue("orders")
    primary.create_queue("billing", status="SendDisabled")
    first = columns(("orders", "1"), ("billing", "1"), ("Billing", "2"))
    second = columns(("BILLING", "3"), ("Orders", "2"))
    assert told(primary, first, second) == [
        ["restored", "refused DISABLED", "refused DISABLED"],
        ["behind", "restored"],
    ]


def test_rows_of_an_entity_keep_their_order_however_it_is_spelled(
    primary: Bus, tmp_path: Path
) -> None:
    primary.create_queue("orders")
    rows = [("orders" if at % 2 else "Orders", str(at)) for at in range(10)]
    assert told(primary, columns(*rows)) == [["restored"] * 10]
    side = side_of(primary, tmp_path / "a")
    assert bodies(side, "orders") == [str(at) for at in range(10)]


def test_what_is_closed_is_not_tried(primary: Bus, tmp_path: Path) -> None:
    primary.create_queue("orders")
    assert told(primary, columns(("Orders", "1")), closed="orders") == [["behind"]]
    assert bodies(side_of(primary, tmp_path / "a"), "orders") == []


def test_a_primary_that_is_away_is_told_and_not_raised(primary: Bus) -> None:
    primary.create_queue("orders")
    primary.stop()
    rows = columns(("orders", "1"), ("orders", "2"))
    assert told(primary, rows, rows) == [["away"] * 2] * 2
    primary.start()


def test_a_key_that_may_not_send_is_told_for_each_entity(primary: Bus) -> None:
    """The request as a whole is refused, and then tried entity by entity."""
    primary.create_queue("orders")
    wrong = SparkConnection(secret=Secret(text=primary.connection_string_for("Listen")))
    outlet = BulkOutlet(wrong, 1_000)
    try:
        outcome = outlet.append(["orders", "other"], [encoded({}), encoded({})])
    finally:
        outlet.close()
    assert {refusal.kind.name for refusal in outcome.refused.values()} == {
        "AUTHORIZATION"
    }
    assert sorted(outcome.refused) == [0, 1]


def test_a_message_that_no_append_takes_waits_for_the_other_syphon(
    primary: Bus,
) -> None:
    outlet = BulkOutlet(connection_to(primary), 1_000)
    outcome = outlet.append(["orders"], [bytes(MESSAGE_LIMIT_BYTES + 1)])
    assert outcome.refused[0].kind.name == "SERVICE"
    assert "twinbus syphon" in outcome.refused[0].text


def test_a_ping_asks_and_leaves_nothing(primary: Bus, tmp_path: Path) -> None:
    primary.create_queue("orders", requires_session=True)
    primary.create_queue("billing", status="SendDisabled")
    outlet = BulkOutlet(connection_to(primary), 1_000)
    try:
        refused = outlet.ping(["orders", "billing", "missing"])
    finally:
        outlet.close()
    assert {path: refusal.kind.name for path, refusal in refused.items()} == {
        "billing": "DISABLED",
        "missing": "NOT_FOUND",
    }
    assert bodies(side_of(primary, tmp_path / "a"), "orders") == []
