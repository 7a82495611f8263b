"""The report of a real failover: both sites and the sender, as they log it."""

from pathlib import Path

from pyspark.sql import SparkSession

from twinbus.testing import Bus

from .failover_run import Load, logs_of_a_failover
from .test_report import of, reported


def _create(bus: Bus) -> None:
    bus.create_queue("orders")


def test_a_failover_is_told_from_its_logs(spark: SparkSession, tmp_path: Path) -> None:
    load = Load()
    folders = logs_of_a_failover(tmp_path, load, _create)
    report = reported(spark, tmp_path / "out", *folders)

    [outage] = report.rows("outages")
    assert outage["entity"] == "orders"
    assert (outage["diverted"], outage["restored"]) == (load.during, load.during)
    assert outage["began_at"] <= outage["failed_over_at"] <= outage["last_at"]
    assert outage["last_at"] < outage["drained_at"] and outage["back_at"] is not None

    rows = report.rows("percentiles")
    assert of(rows, measure="restore_lag", entity="orders")["messages"] == load.during
    dwell = of(rows, measure="backlog_dwell", entity=None)
    assert dwell["messages"] == load.during
    sent = load.before + load.during + load.after
    delivered = of(rows, measure="send_to_deliver", entity="orders")
    assert delivered["messages"] == sent
    completed = of(rows, measure="deliver_to_complete", entity="orders")
    assert completed["messages"] == sent - 2

    [group] = report.rows("dead_letter_groups")
    assert (group["reason"], group["messages"]) == ("OutOfStock", 2)
    samples = report.rows("dead_letter_samples")
    assert {row["message_id"] for row in samples} == {"before-3", "before-4"}
    assert {row["operation"] for row in samples} == {"dead_letter"}
