"""A real pair, a real outage: the audit of its real logs says zero."""

import time
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.management import ServiceBusAdministrationClient
from pyspark.sql import SparkSession

from twinbus.clock import SystemClock
from twinbus.log_export.blob_source import SqliteBlobs
from twinbus.log_export.export_run import ExportRun
from twinbus.log_export.exporter import ExportPlan
from twinbus.pairing import SendAvailabilityPairedNamespaceOptions, pair_namespace
from twinbus.spark.jobs import audit, meter
from twinbus.spark.jobs.audit.audit_summary import NOT_KNOWN, PROVEN
from twinbus.spark.jobs.segment_files import OperationLogError
from twinbus.testing import Bus

MESSAGES = 40
"""Before the outage, in it, and after it, each."""


def export(bus: Bus, folder: Path, namespace: str) -> str:
    sources = [SqliteBlobs(bus.folder / "messages.sqlite3")]
    plan = ExportPlan(folder=folder, namespace=namespace, segment_rows=100)
    run = ExportRun(sources, plan, SystemClock())
    run.once(lambda name, counts: None, time.sleep)
    return str(folder)


def options_of(secondary: Bus, folder: Path) -> SendAvailabilityPairedNamespaceOptions:
    return SendAvailabilityPairedNamespaceOptions(
        ServiceBusAdministrationClient.from_connection_string(
            secondary.connection_string, connection_verify=str(secondary.ca_file)
        ),
        ServiceBusClient.from_connection_string(secondary.connection_string),
        backlog_queue_count=2,
        failover_interval=0,
        ping_primary_interval=1,
        enable_syphon=True,
        primary_name="site-a",
        send_log=folder,
    )


def run_pair(site_a: Bus, site_b: Bus, folder: Path) -> None:
    """Send before, in and after an outage of the primary; receive all of it."""
    site_a.create_queue("orders")
    primary = ServiceBusClient.from_connection_string(site_a.connection_string)
    with pair_namespace(primary, options_of(site_b, folder)) as client:
        with client.get_queue_sender("orders") as sender:
            sender.send_messages([ServiceBusMessage(f"a{n}") for n in range(MESSAGES)])
            site_a.stop()
            for number in range(MESSAGES):
                sender.send_messages(ServiceBusMessage(f"b{number}"))
            site_a.start()
            sender.send_messages([ServiceBusMessage(f"c{n}") for n in range(MESSAGES)])
        got: set[str] = set()
        with client.get_queue_receiver("orders") as receiver:
            while len(got) < 3 * MESSAGES:
                for message in receiver.receive_messages(100, max_wait_time=60):
                    got.add(str(message))
                    receiver.complete_message(message)


@pytest.mark.timeout(900)
def test_a_real_failover_lost_and_doubled_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    with Bus() as site_a, Bus(tls=True) as site_b:
        run_pair(site_a, site_b, tmp_path / "sent")
        site_a.stop()
        site_b.stop()
        logs = (
            export(site_a, tmp_path / "a", "site-a"),
            export(site_b, tmp_path / "b", "site-b"),
            str(tmp_path / "sent"),
        )
    options = audit.AuditOptions(logs=logs, tolerance_seconds=0)
    summary = audit.run(spark, options)
    assert summary.verdict == PROVEN, summary.findings
    assert set(summary.totals.values()) == {0}
    [orders] = [one for one in summary.entities if one.entity == "orders"]
    assert (orders.claimed, orders.sent, orders.completed, orders.in_flight) == (
        *(3 * MESSAGES, 3 * MESSAGES, 3 * MESSAGES),
        0,
    )
    backlog = [one for one in summary.entities if "transfer" in one.entity]
    diverted = sum(one.sent for one in backlog)
    assert diverted >= MESSAGES
    bill = meter.run(spark, meter.MeterOptions(logs=logs))
    assert bill.pair is not None
    assert bill.pair.diverted == diverted
    # Without the primary's log, or a part of it, nobody knows.
    with pytest.raises(OperationLogError, match="give its log"):
        audit.run(spark, audit.AuditOptions(logs=logs[1:]))
    first, *others = sorted((tmp_path / "a" / "segments").glob("store-*.json"))
    assert others
    first.unlink()
    assert audit.run(spark, options).verdict == NOT_KNOWN
