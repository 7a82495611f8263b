"""Pages that repeat parts of the code agree with it."""

import json
import re
import runpy

from prometheus_client import CollectorRegistry

from simulator import KINDS
from twinbus.doors.amqp import management
from twinbus.doors.amqp.namespace_management import describe
from twinbus.doors.http.bus_metrics import (
    entity_families,
    lease_families,
    process_families,
    store_families,
    sum_families,
)
from twinbus.doors.http.messaging.messaging_path import Asked, messaging_path
from twinbus.doors.http.request import HttpRequest
from twinbus.pairing.metrics import PairMetrics
from twinbus.process.cluster_member import broker_families
from twinbus.store import sqlite, sqlite_catalog
from twinbus.testing import Bus

from .pages import ROOT, blocks_of

DOCS = ROOT / "docs"
MANAGEMENT = DOCS / "reference" / "management.md"


def table_rows(text: str, cell_count: int) -> list[list[str]]:
    """Rows of all tables with that many columns, their heads among them."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|")
    ]
    return [row for row in rows if len(row) == cell_count]


def test_diagrams_of_states_are_current() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "amqp_states_reference.py"))
    hint = "run scripts/amqp_states_reference.py"
    assert script["PAGE"].read_text() == script["page"](), hint


def test_tables_of_a_report_are_current() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "report_page.py"))
    hint = "run scripts/report_page.py"
    assert script["PAGE"].read_text() == script["page"](), hint


def test_import_rules_of_the_architecture_are_those_of_the_test() -> None:
    test = runpy.run_path(str(ROOT / "tests" / "unit" / "test_architecture.py"))
    packages = {
        name
        for name in test["MAY_IMPORT"]
        if (ROOT / "src" / "twinbus" / name).is_dir()
    }
    rows = table_rows((DOCS / "ARCHITECTURE.md").read_text(), 3)
    documented = {
        row[0].strip("`"): (set(re.findall(r"`([\w/]+)`", row[1])), row[2] == "yes")
        for row in rows
        if row[0].strip("`") in packages
    }
    assert documented == {
        name: (test["MAY_IMPORT"][name] & packages, name in test["PURE"])
        for name in packages
    }


def test_the_page_of_metrics_has_every_metric() -> None:
    registry = CollectorRegistry()
    PairMetrics(registry)
    with Bus(store="memory") as bus:
        bus.create_queue("orders")
        figures = bus.server.figures
        found = figures.entity_figures(figures.entity_names())
        families = [
            *process_families(figures.process_figures()),
            *store_families(figures.store_figures()),
            *sum_families(found, 1),
            *lease_families(found),
            *entity_families(found),
            *registry.collect(),
            *broker_families((), {}),
        ]
    endings = {"counter": "_total", "info": "_info"}
    names = {f"{item.name}{endings.get(item.type, '')}" for item in families}
    page = (DOCS / "reference" / "metrics.md").read_text()
    assert set(re.findall(r"^\| `(twinbus_\w+)`", page, re.MULTILINE)) == names


def test_the_page_of_storage_has_every_format() -> None:
    rows = table_rows((DOCS / "concepts" / "storage.md").read_text(), 3)
    documented = [(row[0].lower(), row[1]) for row in rows if row[1].isdigit()]
    assert documented == [
        (kind.noun, str(version))
        for kind in (sqlite_catalog.FORMAT, sqlite.FORMAT)
        for version in range(1, kind.version + 1)
    ]


def test_the_description_of_http_messaging_has_every_request() -> None:
    page = json.loads((DOCS / "reference" / "http-messaging.openapi.json").read_text())
    token = "00000000-0000-0000-0000-000000000000"
    described: dict[Asked, set[str]] = {}
    for path, methods in page["paths"].items():
        full = path.format(entity="orders", name="7", lockToken=token)
        for method in {"POST", "PUT", "DELETE", "GET", "PATCH"}:
            asked = messaging_path(HttpRequest(method=method, target=full, headers={}))
            assert (asked is not None) == (method.lower() in methods), (method, path)
            if asked is not None:
                described[asked.asked] = {*described.get(asked.asked, ()), method}
    assert described == {asked: set(asked.value) for asked in Asked}


def test_the_page_of_simulation_has_every_kind_of_world() -> None:
    rows = table_rows((DOCS / "concepts" / "simulation.md").read_text(), 3)
    assert {row[0].strip("`") for row in rows if row[0].startswith("`")} == set(KINDS)


def test_operations_of_queues_are_those_of_the_page() -> None:
    documented = {
        row[0].strip("`"): row[1]
        for row in table_rows(MANAGEMENT.read_text(), 4)
        if row[0].startswith("`")
    }
    operations = {**management._OPERATIONS, **management._EXTENSIONS}
    assert documented == {name: claim.title for name, (claim, _) in operations.items()}


def test_queue_is_described_as_on_the_page() -> None:
    [block] = (block for block in blocks_of(MANAGEMENT) if block.language == "json")
    with Bus(store="memory") as bus:
        bus.create_queue("orders")
        described = describe(bus.server.namespace.queue("orders"), bus.clock.now())
    shown = json.loads(block.text)
    for name in ("created_at", "updated_at"):
        shown[name] = described[name]
    # As JSON has it: lists for tuples.
    assert shown == json.loads(json.dumps(described))
