"""S1: a task and its copy read or send the same rows, on a real cluster.

One application does both, because it takes longer to start than all it does.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from twinbus.spark.packaging import write_archive
from twinbus.testing import Bus

from .harness import Namespace, numbered
from .standalone import StandaloneCluster

JOB = Path(__file__).with_name("speculation_job.py")
READ = [f"q{n}" for n in range(6)]


@dataclass(frozen=True)
class Speculated:
    """What the job left, and what it printed."""

    namespace: Namespace
    marks: set[str]
    printed: str


@pytest.fixture(scope="module")
def speculated(
    cluster: StandaloneCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Speculated]:
    folder = tmp_path_factory.mktemp("speculated")
    package = write_archive(folder / "twinbus.zip")
    marks = folder / "marks"
    marks.mkdir()
    with Bus() as bus, Namespace(bus, folder) as namespace:
        for queue in ("ids", "plain", *READ):
            bus.create_queue(queue)
        for queue in READ:
            namespace.send(queue, numbered(f"{queue}-", range(20)))
        arguments = (namespace.credential, str(marks))
        printed = cluster.submit(JOB, *arguments, package=package)
        names = {mark.name for mark in marks.iterdir()}
        yield Speculated(namespace, names, printed)


@pytest.mark.parametrize("queue", ["ids", "plain"])
def test_the_copy_of_a_task_that_writes_has_run(
    speculated: Speculated, queue: str
) -> None:
    assert {f"{queue}-1-0", f"{queue}-1-1"} <= speculated.marks


def test_a_task_that_has_a_copy_sends_its_rows_once(speculated: Speculated) -> None:
    once = _counts(speculated.namespace, "ids")
    assert len(once) == 1010 and set(once.values()) == {1}
    # Without ids both are heard.
    twice = _counts(speculated.namespace, "plain")
    assert len(twice) == 1010 and sum(twice.values()) > 1010


def test_a_task_that_has_a_copy_is_read_twice_and_counts_once(
    speculated: Speculated,
) -> None:
    expected = [body for queue in READ for body in numbered(f"{queue}-", range(20))]
    assert speculated.printed.split() == sorted(expected)
    assert {"read-0-0", "read-0-1"} <= speculated.marks
    for queue in READ:
        assert speculated.namespace.peek(queue) == []


def _counts(namespace: Namespace, entity: str) -> Counter[str | None]:
    return Counter(m.message_id for m in namespace.peek(entity, count=10_000))
