"""Which worker runs which test, for `--dist loadgroup`.

A test goes to the next free worker, and all tests of a group go to the same worker. The
mark `xdist_group` would do the same, but pytest-xdist 3.8 writes the group into an
attribute that pytest 9.2 no longer reads, so the mark has no effect.
"""

from xdist.scheduler import LoadScopeScheduling

# Both use the fixture `cluster`: seven processes, which one worker starts once.
_GROUP_OF = {
    "tests/spark/test_cluster.py": "cluster",
    "tests/spark/test_speculation.py": "cluster",
}


def group_of(nodeid: str) -> str | None:
    return _GROUP_OF.get(nodeid.split("::")[0])


class Groups(LoadScopeScheduling):
    """Hands out groups first, then tests one by one in their order."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid) or nodeid
