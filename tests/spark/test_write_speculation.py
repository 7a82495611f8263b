"""S1: a task and its copy send the same rows, on a real cluster."""

from collections import Counter
from pathlib import Path

import pytest

from twinbus.spark.packaging import write_archive

from .harness import Namespace
from .standalone import StandaloneCluster

pytestmark = [pytest.mark.xdist_group("cluster"), pytest.mark.timeout(600)]

JOB = Path(__file__).with_name("speculation_job.py")


class TwoHosts(StandaloneCluster):
    """Its workers seem to be on two machines: Spark never runs a copy on the host of
    the first attempt."""

    def _run(self, name: str, main_class: str, *arguments: str) -> Path:
        host = ("--host", "localhost") if name == "worker1" else ()
        return super()._run(name, main_class, *host, *arguments)


def test_a_task_that_has_a_copy_sends_its_rows_once(
    namespace: Namespace, tmp_path: Path
) -> None:
    for queue in ("ids", "plain"):
        namespace.bus.create_queue(queue)
    marks = tmp_path / "marks"
    marks.mkdir()
    package = write_archive(tmp_path / "twinbus.zip")
    (tmp_path / "cluster").mkdir()
    with TwoHosts(tmp_path / "cluster") as cluster:
        cluster.submit(JOB, namespace.credential, str(marks), package=package)
    for queue in ("ids", "plain"):
        found = {mark.name for mark in marks.glob(f"{queue}-*")}
        assert {f"{queue}-1-0", f"{queue}-1-1"} <= found
    once = _counts(namespace, "ids")
    assert len(once) == 1010 and set(once.values()) == {1}
    # Without ids both are heard.
    twice = _counts(namespace, "plain")
    assert len(twice) == 1010 and sum(twice.values()) > 1010


def _counts(namespace: Namespace, entity: str) -> Counter[str | None]:
    return Counter(m.message_id for m in namespace.peek(entity, count=10_000))
