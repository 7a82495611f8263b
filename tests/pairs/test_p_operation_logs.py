"""One message has one uid: in the send log, on its detour, and back at the primary."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.management import ServiceBusAdministrationClient

from twinbus.clock import SystemClock
from twinbus.log_export.blob_source import SqliteBlobs
from twinbus.log_export.export_run import ExportRun
from twinbus.log_export.exporter import ExportPlan
from twinbus.pairing import SendAvailabilityPairedNamespaceOptions, pair_namespace
from twinbus.testing import Bus


def options_of(secondary: Bus, folder: Path) -> SendAvailabilityPairedNamespaceOptions:
    return SendAvailabilityPairedNamespaceOptions(
        ServiceBusAdministrationClient.from_connection_string(
            secondary.connection_string, connection_verify=str(secondary.ca_file)
        ),
        ServiceBusClient.from_connection_string(secondary.connection_string),
        backlog_queue_count=1,
        failover_interval=0,
        ping_primary_interval=1,
        enable_syphon=True,
        primary_name="site-a",
        send_log=folder,
    )


def export(bus: Bus, folder: Path) -> None:
    sources = [SqliteBlobs(bus.folder / "messages.sqlite3")]
    run = ExportRun(sources, ExportPlan(folder=folder), SystemClock())
    run.once(lambda name, counts: None, time.sleep)


def rows_of(folder: Path) -> Iterator[dict[str, Any]]:
    for file in sorted((folder / "segments").glob("*.json")):
        one = json.loads(file.read_text())
        yield from pyarrow.parquet.ParquetFile(folder / one["file"]).read().to_pylist()


def test_a_diverted_message_keeps_its_uid(tmp_path: Path) -> None:
    """P9, P12: one message, on its detour and restored, in the logs of S8."""
    with Bus() as site_a, Bus(tls=True) as site_b:
        site_a.create_queue("orders")
        primary = ServiceBusClient.from_connection_string(site_a.connection_string)
        with pair_namespace(primary, options_of(site_b, tmp_path)) as client:
            with client.get_queue_sender("orders") as sender:
                sender.send_messages(ServiceBusMessage("straight", message_id="one"))
                site_a.stop()
                sender.send_messages(ServiceBusMessage("diverted", message_id="two"))
                site_a.start()
            with client.get_queue_receiver("orders") as receiver:
                got: set[str] = set()
                while got != {"straight", "diverted"}:
                    for message in receiver.receive_messages(2, max_wait_time=60):
                        got.add(str(message))
                        receiver.complete_message(message)
        for bus in (site_a, site_b):
            bus.stop()
            export(bus, tmp_path)
        rows = list(rows_of(tmp_path))
    noted = [row for row in rows if row["purpose"] == "pair"]
    # There may have been time for a ping.
    logged = [row for row in noted if row["operation"] != "ping"]
    assert [(row["operation"], row["result"]) for row in logged] == [
        ("send", "ok"),
        ("divert", "ok"),
    ]
    straight, diverted = (row["message_uid"] for row in logged)
    ways = {
        uid: {
            (row["operation"], row["entity"])
            for row in rows
            if row["message_uid"] == uid and row["purpose"] != "pair"
        }
        for uid in (straight, diverted)
    }
    at_primary = {("send", "orders"), ("lock", "orders"), ("complete", "orders")}
    assert ways[straight] == at_primary
    backlog = logged[1]["destination"]
    assert at_primary < ways[diverted]
    assert {("send", backlog), ("complete", backlog)} < ways[diverted]
