"""Which worker runs which test.

With `--dist loadgroup`, a test goes to the next free worker, and all tests of a group
go to the same worker. The mark `xdist_group` would do the same, but pytest-xdist 3.8
writes the group into an attribute that pytest 9.2 no longer reads, so the mark has no
effect.

With `--dist worksteal`, each worker begins with its share of the long tests. Otherwise
a few workers run these at the end, one after the other, and all others wait.
"""

import itertools
from typing import final

from xdist.scheduler import LoadScopeScheduling, WorkStealingScheduling

# Both use the fixture `cluster`: seven processes, which one worker starts once.
_GROUP_OF = {
    "tests/spark/test_cluster.py": "cluster",
    "tests/spark/test_speculation.py": "cluster",
    # Most look at one report.
    "tests/spark/test_report.py": "report",
    # Three brokers, for all of its tests but one.
    "tests/brokers/test_transactions_between.py": "transactions between brokers",
}


# They take a minute or more: clients that wait for brokers, and JVMs.
_LONG = (
    "tests/docs/test_blocks.py::test_a_newcomer",
    "tests/drills/test_drills.py",
    *(
        f"tests/docs/test_blocks.py::test_code_of_a_page_runs_as_printed[{page}"
        for page in (
            *("docs/howto/meter", "docs/howto/capture", "docs/howto/spark"),
            *("docs/howto/report", "docs/howto/command", "docs/howto/keys"),
            *("docs/howto/pairing", "docs/howto/backup", "docs/quickstart"),
        )
    ),
    "tests/cli/test_spark.py",
    "tests/brokers/test_network_cuts.py",
)


def group_of(nodeid: str) -> str | None:
    return _GROUP_OF.get(nodeid.split("::")[0])


class Groups(LoadScopeScheduling):
    """Hands out groups first, then tests one by one in their order."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid) or nodeid


@final
class LongFirst(WorkStealingScheduling):
    """Hands out long tests first, the same number to each worker."""

    def check_schedule(self) -> None:
        collection = self.collection or []
        # True once, before anything was handed out.
        if collection and len(self.pending) == len(collection):
            long = [n for n in self.pending if collection[n].startswith(_LONG)]
            self.pending[:] = spread(self.pending, set(long), len(self.nodes))
        super().check_schedule()


def spread(tests: list[int], long: set[int], worker_count: int) -> list[int]:
    """All tests, so that the share of each worker begins with long ones. Shares are
    slices of the same length, which is what the scheduler makes of the list."""
    first = [n for n in tests if n in long]
    others = iter([n for n in tests if n not in long])
    order: list[int] = []
    for worker in range(worker_count):
        length = (len(tests) - len(order)) // (worker_count - worker)
        share = first[worker::worker_count]
        order += share
        order += itertools.islice(others, max(0, length - len(share)))
    return order
