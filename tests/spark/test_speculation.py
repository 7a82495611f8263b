"""S1: a task and its copy read or send the same rows, on a real cluster."""

from collections import Counter
from pathlib import Path

from twinbus.spark.packaging import write_archive

from .harness import Namespace, numbered
from .standalone import StandaloneCluster

JOBS = Path(__file__).parent


def test_a_task_that_has_a_copy_sends_its_rows_once(
    cluster: StandaloneCluster, namespace: Namespace, tmp_path: Path
) -> None:
    for queue in ("ids", "plain"):
        namespace.bus.create_queue(queue)
    marks = tmp_path / "marks"
    marks.mkdir()
    package = write_archive(tmp_path / "twinbus.zip")
    job = JOBS / "writing_twice_job.py"
    cluster.submit(job, namespace.credential, str(marks), package=package)
    for queue in ("ids", "plain"):
        found = {mark.name for mark in marks.glob(f"{queue}-*")}
        assert {f"{queue}-1-0", f"{queue}-1-1"} <= found
    once = _counts(namespace, "ids")
    assert len(once) == 1010 and set(once.values()) == {1}
    # Without ids both are heard.
    twice = _counts(namespace, "plain")
    assert len(twice) == 1010 and sum(twice.values()) > 1010


def test_a_task_that_has_a_copy_is_read_twice_and_counts_once(
    cluster: StandaloneCluster, namespace: Namespace, tmp_path: Path
) -> None:
    expected = []
    for n in range(6):
        namespace.bus.create_queue(f"q{n}")
        namespace.send(f"q{n}", numbered(f"q{n}-", range(20)))
        expected += numbered(f"q{n}-", range(20))
    marks = tmp_path / "marks"
    marks.mkdir()
    package = write_archive(tmp_path / "twinbus.zip")
    job = JOBS / "reading_twice_job.py"
    printed = cluster.submit(job, namespace.credential, str(marks), package=package)
    assert printed.split() == sorted(expected)
    assert {"0-0", "0-1"} <= {mark.name for mark in marks.iterdir()}
    for n in range(6):
        assert namespace.peek(f"q{n}") == []


def _counts(namespace: Namespace, entity: str) -> Counter[str | None]:
    return Counter(m.message_id for m in namespace.peek(entity, count=10_000))
