"""S7: jobs on a real cluster, whose executors have only the parts of twinbus that are
shipped to them."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from pairs.syphon_world import PRIMARY, backlog, diverted
from pyspark.sql import SparkSession

from bench.operation_logs import LogOptions, generate
from twinbus.spark.jobs import meter
from twinbus.spark.packaging import write_archive
from twinbus.testing import Bus

from .harness import Namespace, numbered
from .reported_log import DIVERTED, write_story
from .standalone import StandaloneCluster
from .syphon_pair import Pair, bodies, side_of

JOB = Path(__file__).with_name("cluster_job.py")
# More than one split of a plan, so that both workers have something to read.
COUNT = 6_000


def test_job_with_its_package_runs_on_workers_that_have_nothing_installed(
    cluster: StandaloneCluster, namespace: Namespace, tmp_path: Path
) -> None:
    namespace.bus.create_queue("orders")
    namespace.bus.create_queue("copies")
    namespace.send("orders", numbered("o", range(COUNT)))
    package = write_archive(tmp_path / "twinbus.zip")

    arguments = (namespace.credential, str(tmp_path / "checkpoint"))
    printed = cluster.submit(JOB, *arguments, package=package)

    places = json.loads(printed.splitlines()[-1])
    for number in range(2):
        folder = str(cluster.work_folder(number))
        assert any(cwd.startswith(folder) for cwd, _ in places), places
    assert all(package.name in file for _, file in places)
    assert namespace.peek("orders") == []
    assert sorted(namespace.bodies("copies", count=COUNT + 1)) == sorted(
        numbered("o", range(COUNT))
    )


def test_syphon_ships_itself(cluster: StandaloneCluster, tmp_path: Path) -> None:
    with Bus() as primary, Bus() as secondary:
        primary.create_queue("orders")
        secondary.create_queue(backlog(0))
        pair = Pair(
            side_of(primary, tmp_path / "a"), side_of(secondary, tmp_path / "b")
        )
        sent = numbered("o", range(100))
        pair.divert(0, [diverted("orders", body) for body in sent])
        command = [
            *(sys.executable, "-m", "twinbus", "spark", "syphon", "--json"),
            *("--primary", pair.primary.credential, "--primary-name", PRIMARY),
            *("--secondary", pair.secondary.credential),
            *("--master", cluster.url, *cluster.settings()),
        ]
        printed = cluster.run(command)
        assert json.loads(printed)["restored"] == 100
        # Without sessions there is no order to keep.
        assert sorted(bodies(pair.primary, "orders")) == sorted(sent)
        assert pair.backlog_counts() == (0, 0)


@pytest.mark.nightly("the syphon and a job with its package are shipped alike")
def test_capture_and_replay_ship_themselves(
    cluster: StandaloneCluster, namespace: Namespace, tmp_path: Path
) -> None:
    namespace.bus.create_queue("orders")
    namespace.bus.create_queue("copies")
    namespace.send("orders", numbered("o", range(COUNT)))

    def run(job: str, *flags: str) -> dict[str, object]:
        command = [
            *(sys.executable, "-m", "twinbus", "spark", job, "orders", "--json"),
            *("--lake", str(tmp_path / "lake"), *flags),
            *("--connection-string", namespace.credential),
            *("--master", cluster.url, *cluster.settings()),
        ]
        content: dict[str, object] = json.loads(cluster.run(command))
        return content

    assert run("capture")["entities"] == {"orders": COUNT}
    sent = run("replay", "--replay-id", "one", "--to", "copies")
    assert (sent["selected"], sent["sent"], sent["known"]) == (COUNT, COUNT, 0)
    assert namespace.bodies("copies", count=COUNT + 1) == numbered("o", range(COUNT))


@pytest.mark.nightly("the syphon and a job with its package are shipped alike")
def test_report_is_made_with_nothing_changed_but_the_master(
    cluster: StandaloneCluster, tmp_path: Path
) -> None:
    folders = write_story(tmp_path / "logs")
    out = tmp_path / "out"
    printed = cluster.run(
        [
            *(sys.executable, "-m", "twinbus", "spark", "report", "--json"),
            *(*map(str, folders), "--out", str(out)),
            *("--master", cluster.url, *cluster.settings()),
        ]
    )
    told = json.loads(printed)
    assert (told["diverted"], told["restored"]) == (DIVERTED, DIVERTED)
    assert (out / "report.html").stat().st_size > 100_000


@pytest.mark.nightly("the syphon and a job with its package are shipped alike")
def test_meter_and_audit_come_to_the_same_as_on_one_machine(
    cluster: StandaloneCluster, spark: SparkSession, tmp_path: Path
) -> None:
    made = generate(tmp_path / "logs", LogOptions(rows=20_000, seed=3))
    logs = tuple(map(str, made.folders))

    def run(job: str) -> dict[str, Any]:
        command = [
            *(sys.executable, "-m", "twinbus", "spark", job, *logs, "--json"),
            *("--master", cluster.url, *cluster.settings()),
        ]
        content: dict[str, Any] = json.loads(cluster.run(command))
        return content

    audited = run("audit")
    assert audited["rows"] == made.rows
    assert audited["verdict"] == "nothing lost or doubled"
    assert sum(one["in_flight"] for one in audited["entities"]) >= made.in_flight
    here = meter.run(spark, meter.MeterOptions(logs=logs)).as_json()
    there = run("meter")
    for name in ("totals", "lines", "pair", "pair_costs"):
        assert there[name] == json.loads(json.dumps(here[name])), name
