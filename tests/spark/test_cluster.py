"""S7: a job on a real cluster, whose executors know nothing of twinbus but what is
shipped to them."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from twinbus.spark.packaging import write_archive

from .harness import Namespace, numbered
from .standalone import StandaloneCluster

JOB = Path(__file__).with_name("cluster_job.py")
# More than one split of a plan, so that both workers have something to read.
COUNT = 6_000


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[StandaloneCluster]:
    folder = tmp_path / "cluster"
    folder.mkdir()
    with StandaloneCluster(folder) as started:
        yield started


@pytest.mark.timeout(600)
def test_job_with_its_package_runs_on_workers_that_have_nothing_installed(
    cluster: StandaloneCluster, namespace: Namespace, tmp_path: Path
) -> None:
    assert_has_no_twinbus(cluster.python)
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


def assert_has_no_twinbus(python: Path) -> None:
    for module in ("twinbus", "pyspark_servicebus"):
        done = subprocess.run([python, "-c", f"import {module}"], capture_output=True)
        assert b"ModuleNotFoundError" in done.stderr, done.stderr
