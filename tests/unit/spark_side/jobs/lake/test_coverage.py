"""Which numbers a capture has looked at."""

from pathlib import Path

import pytest

from twinbus.spark.jobs.lake.coverage import (
    Coverage,
    read_coverages,
    write_coverage,
)
from twinbus.spark.jobs.lake.errors import LakeDamaged
from twinbus.spark.jobs.lake.folder import LocalFolder


def test_coverage_grows_with_each_batch(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    first = Coverage(checkpoint="q").extended(
        "q-0", "then", {"orders": ("orders", "g1", {0: (0, 5)})}
    )
    second = first.extended(
        "q-1", "now", {"orders": ("orders", "g2", {0: (0, 2), 1: (9, 9)})}
    )
    write_coverage(folder, second)
    assert read_coverages(folder) == {"q": second}
    assert second.last_batch == "q-1"
    assert second.entities["orders"].generations == {
        "g1": {0: (0, 5)},
        "g2": {0: (0, 2), 1: (9, 9)},
    }


def test_damage_is_told(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    assert read_coverages(folder) == {}
    folder.replace("manifest/coverage/q.json", '{"format": 1}')
    with pytest.raises(LakeDamaged, match=r"coverage/q\.json is damaged"):
        read_coverages(folder)
