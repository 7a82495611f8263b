"""`twinbus.spark.jobs.report`: a small log whose figures are known, and its faults."""

import csv
import hashlib
import json
import re
import shutil
from datetime import datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
from pyspark.sql import SparkSession

from bench.operation_log_writer import LogWriter
from twinbus.spark.jobs.report import ReportOptions, ReportSummary, run
from twinbus.spark.jobs.report.tables import TABLES
from twinbus.spark.jobs.segment_files import OperationLogError

from .reported_log import AT, BACKLOG, DIVERTED, ORDERS, at, second_hour, write_story

Rows = list[dict[str, Any]]


class Report:
    """One report, and what is in its folder."""

    def __init__(self, folder: Path, summary: ReportSummary) -> None:
        self.folder = folder
        self.summary = summary

    @property
    def page(self) -> str:
        return (self.folder / "report.html").read_text()

    def rows(self, name: str) -> Rows:
        folder = self.folder / "tables"
        file = folder / f"{name}.parquet"
        # Of a folder, the folders of hours are not columns of the table.
        files = [file] if file.exists() else sorted((folder / name).rglob("*.parquet"))
        return [
            row
            for path in files
            for row in parquet.ParquetFile(path).read().to_pylist()
        ]

    def digests(self) -> dict[str, str]:
        return {
            str(path.relative_to(self.folder)): hashlib.sha256(
                path.read_bytes()
            ).hexdigest()
            for path in sorted(self.folder.rglob("*"))
            if path.is_file()
        }


def reported(spark: SparkSession, out: Path, *folders: Path, **options: Any) -> Report:
    texts = tuple(map(str, folders))
    return Report(out, run(spark, ReportOptions(folders=texts, out=out, **options)))


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    return write_story(tmp_path_factory.mktemp("story"))


@pytest.fixture(scope="module")
def report(
    spark: SparkSession,
    story: tuple[Path, ...],
    tmp_path_factory: pytest.TempPathFactory,
) -> Report:
    return reported(spark, tmp_path_factory.mktemp("report") / "out", *story)


def of(rows: Rows, **only: Any) -> dict[str, Any]:
    [row] = (r for r in rows if all(r[name] == value for name, value in only.items()))
    return row


def test_latencies_are_those_of_the_messages(report: Report) -> None:
    rows = report.rows("percentiles")
    delivered = of(rows, measure="send_to_deliver", entity=None)
    # Message n waited for n + 1 tenths of a second, at its first delivery.
    assert (delivered["messages"], delivered["greatest_ms"]) == (ORDERS, 4_000)
    assert delivered["p50_ms"] == pytest.approx(2_000, rel=0.011)
    assert delivered["p90_ms"] == pytest.approx(3_600, rel=0.011)
    # From the last delivery, also of those that were delivered twice.
    completed = of(rows, measure="deliver_to_complete", entity="orders")
    assert (completed["messages"], completed["p50_ms"]) == (ORDERS, 50)
    assert completed["greatest_ms"] == 50


def test_detours_are_measured_by_both_sites(report: Report) -> None:
    rows = report.rows("percentiles")
    dwell = of(rows, measure="backlog_dwell", entity=BACKLOG)
    assert (dwell["messages"], dwell["greatest_ms"]) == (DIVERTED, 300_000)
    lag = of(rows, measure="restore_lag", entity="orders")
    assert (lag["messages"], lag["greatest_ms"]) == (DIVERTED, 299_000)
    assert {row["measure"] for row in rows} == {
        *("send_to_deliver", "deliver_to_complete", "backlog_dwell", "restore_lag")
    }


def test_an_outage_has_its_times_and_counts(report: Report) -> None:
    [row] = report.rows("outages")
    assert row == {
        "entity": "orders",
        "began_at": at(1_200),
        "failed_over_at": at(1_202),
        "last_at": at(1_202 + DIVERTED - 1),
        "back_at": at(1_470),
        "drained_at": at(1_501),
        "failed": 2,
        "diverted": DIVERTED,
        "restored": DIVERTED,
        "pings": 4,
    }


def test_fragments_are_compared_with_their_mean(report: Report) -> None:
    [row] = report.rows("skew")
    # Half of the orders are in fragment 1; a quarter, and what has no key, in 0.
    sent = ORDERS + 5 + 1 + DIVERTED + 5
    assert (row["entity"], row["fragments"], row["sent"]) == ("orders", 3, sent)
    assert (row["fullest_fragment"], row["fullest_sent"]) == (0, sent - 30)
    assert row["skew"] == pytest.approx((sent - 30) * 3 / sent)


def test_busiest_sessions_come_first(report: Report) -> None:
    found = [
        (row["session_id"], row["sent"], row["delivered"], row["rank"])
        for row in report.rows("sessions")
    ]
    assert found == [("red", 30, 33, 1), ("blue", 10, 11, 2)]


def test_dead_letters_are_grouped_with_their_command(report: Report) -> None:
    groups = report.rows("dead_letter_groups")
    found = [(row["entity"], row["reason"], row["messages"]) for row in groups]
    assert found == [
        ("orders", "Out of $tock", 3),
        ("orders", "MaxDeliveryCountExceeded", 2),
        ("billing/subscriptions/audit", "TTLExpiredException", 1),
    ]
    numbers = "--sequence-number 103 --sequence-number 104"
    assert groups[1]["command"] == f"twinbus dead-letters resubmit orders {numbers}"


def test_samples_say_who_made_them_dead_letters(report: Report) -> None:
    samples = report.rows("dead_letter_samples")
    newest = next(row for row in samples if row["reason"] == "Out of $tock")
    assert (newest["message_id"], newest["operation"]) == ("m-102", "dead_letter")
    assert (newest["client"], newest["delivery_count"]) == ("host-2", 1)
    counted = next(
        row for row in samples if row["reason"] == "MaxDeliveryCountExceeded"
    )
    assert (counted["operation"], counted["delivery_count"]) == ("abandon", 10)
    assert (counted["client"], counted["sequence_number"]) == ("host-3", 104)


def test_costs_are_by_price_book(report: Report) -> None:
    """The sender's own log costs nothing, except pings that nobody answered."""
    sends, locks = ORDERS + 5 + 1 + DIVERTED + 5 + DIVERTED, ORDERS + 4 + DIVERTED
    pings, ends = 4, ORDERS + DIVERTED + 4 + 3 + 2
    bills = report.summary.costs
    assert bills["documents"]["billed"] == sends + locks + pings
    assert bills["service"]["billed"] == sends + locks + pings + ends
    billed = [row for row in report.rows("costs") if row["book"] == "service"]
    assert sum(row["billed"] for row in billed) == bills["service"]["billed"]


def test_volumes_are_by_hour(report: Report) -> None:
    sends = [
        (row["hour_start"], row["operations"])
        for row in report.rows("volumes")
        if (row["entity"], row["operation"]) == ("orders", "send")
    ]
    assert sends == [(AT, ORDERS + 5 + 1 + DIVERTED), (AT + timedelta(hours=1), 5)]


def test_what_came_back_is_not_sent_twice(report: Report) -> None:
    counts: dict[str, int] = {}
    for row in report.rows("course"):
        counts[row["what"]] = counts.get(row["what"], 0) + row["operations"]
    assert counts == {
        "sent": ORDERS + 5 + 1 + 5,
        "delivered": ORDERS + 4,
        "completed": ORDERS,
        "diverted": DIVERTED,
        "restored": DIVERTED,
    }


def test_every_table_has_its_schema_as_csv_and_parquet(report: Report) -> None:
    for table in TABLES:
        names = [column.name for column in table.columns]
        with (report.folder / "tables" / f"{table.name}.csv").open() as file:
            assert next(csv.reader(file)) == names
        files = [
            *(report.folder / "tables").glob(f"{table.name}.parquet"),
            *(report.folder / "tables" / table.name).rglob("*.parquet"),
        ]
        assert files
        for path in files:
            assert parquet.read_schema(path).remove_metadata() == table.arrow_schema()


class _Look(HTMLParser):
    """What a page asks for, and what it has no words for."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.wordless: list[str] = []
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        for name in ("src", "href", "xlink:href", "srcset", "action"):
            address = found.get(name)
            if address and not address.startswith("#"):
                self.addresses.append(address)
        if found.get("role") == "img" and not found.get("aria-label"):
            self.wordless.append(tag)
        if found.get("id"):
            self.ids.append(str(found["id"]))


def test_the_page_needs_nothing_else_and_has_words_for_its_plots(
    report: Report,
) -> None:
    page = report.page
    look = _Look(page)
    assert (look.addresses, look.wordless) == ([], [])
    assert len(set(look.ids)) == len(look.ids)
    assert "<script" not in page and "@import" not in page and "url(http" not in page
    plots = {path.stem for path in (report.folder / "plots").glob("*.png")}
    assert plots == {
        *("course", "latency-distribution", "latency-course", "outages"),
        *("dead-letters", "fragment-skew", "busiest-sessions", "costs"),
    }
    # Each for a desk and for a phone.
    assert page.count('role="img"') == 2 * len(plots)
    assert page.count("<table>") >= len(plots)


def test_the_page_tells_what_the_tables_tell(report: Report) -> None:
    page = re.sub(r"<svg.*?</svg>", "", report.page, flags=re.DOTALL)
    for text in ("Out of $tock: 3 of orders", "no. 0", "red", "2026-11-01 10:20:02"):
        assert text in page
    assert "Nothing is missing" in page


def test_the_same_log_gives_the_same_files(
    spark: SparkSession, report: Report, story: tuple[Path, ...], tmp_path: Path
) -> None:
    again = reported(spark, tmp_path, *reversed(story))
    assert again.digests() == report.digests()


def test_late_rows_change_their_hour_alone(
    spark: SparkSession, story: tuple[Path, ...], tmp_path: Path
) -> None:
    folder = tmp_path / "log"
    shutil.copytree(story[0], folder)
    out = tmp_path / "out"
    before = reported(spark, out, folder).digests()
    late = LogWriter(folder, "site-a", name="late")
    late.write_rows(list(second_hour(2)), at(5_400))
    after = reported(spark, out, folder, since=AT + timedelta(hours=1))
    volumes = "tables/volumes/date=2026-11-01/hour={}/rows.parquet"
    digests = after.digests()
    assert digests[volumes.format("10")] == before[volumes.format("10")]
    [row] = parquet.ParquetFile(out / volumes.format("11")).read().to_pylist()
    assert (row["operation"], row["operations"]) == ("send", 7)


def test_a_log_without_operations_says_so(spark: SparkSession, tmp_path: Path) -> None:
    log, out = tmp_path / "log", tmp_path / "out"
    LogWriter(log, "site-a").write_rows([], at(0))
    report = reported(spark, out, log)
    assert (report.summary.operations, report.summary.first_at) == (0, None)
    assert "The log has no operation in this time" in report.page
    assert list((out / "plots").glob("*")) == []


def test_a_gap_is_said_before_the_figures(spark: SparkSession, tmp_path: Path) -> None:
    log = tmp_path / "log"
    writer = LogWriter(log, "site-a")
    segments = [writer.write_rows(list(second_hour(3)), at(5_400)) for _ in range(3)]
    segments[1].unlink()
    report = reported(spark, tmp_path / "out", log)
    assert report.summary.gaps == 1
    [remark] = [text for text in report.summary.remarks if "gap" in text]
    assert "missing" in remark
    page = report.page
    assert page.index("Read this first") < page.index("What the stores did")
    assert "segments 2 to 2" in page
    assert (tmp_path / "out" / "plots" / "outages.png").exists()


def test_clocks_that_are_apart_are_told(
    spark: SparkSession, story: tuple[Path, ...], tmp_path: Path
) -> None:
    """The secondary is ahead by ten minutes, and there is no log of a sender."""
    early = LogWriter(tmp_path / "early", "site-a", name="early")
    message = {"entity": "orders", "message_uid": "ab" * 16, "operation": "send"}
    early.write_rows([{**message, "occurred_at": at(0)}], at(900))
    late = LogWriter(tmp_path / "late", "site-b", name="late")
    diverted = {**message, "entity": BACKLOG, "occurred_at": at(600)}
    late.write_rows([diverted], at(900))
    report = reported(spark, tmp_path / "out", early.folder, late.folder)
    told = " ".join(report.summary.remarks)
    assert "apart by 10 min" in told
    assert "no send log of a paired sender" in told


def test_a_damaged_log_leaves_nothing_behind(
    spark: SparkSession, story: tuple[Path, ...], tmp_path: Path
) -> None:
    log, out = tmp_path / "log", tmp_path / "out"
    shutil.copytree(story[0], log)
    file = next((log / "operations").rglob("*.parquet"))
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(OperationLogError, match=file.name):
        reported(spark, out, log)
    assert not out.exists()


def test_the_summary_is_json(report: Report) -> None:
    from dataclasses import asdict

    told = json.loads(json.dumps(asdict(report.summary)))
    assert told["dead_letters"] == 6
    assert datetime.fromisoformat(told["first_at"]) == AT
    assert told["latencies"]["backlog_dwell"]["messages"] == DIVERTED
