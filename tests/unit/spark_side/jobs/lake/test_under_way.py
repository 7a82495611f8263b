"""The note of what is under way."""

from pathlib import Path

import pytest

from twinbus.spark.jobs.lake.errors import LakeDamaged
from twinbus.spark.jobs.lake.folder import LocalFolder
from twinbus.spark.jobs.lake.layout import LakeHour
from twinbus.spark.jobs.lake.under_way import (
    COMPACTION,
    UnderWay,
    end_under_way,
    hours_together,
    read_under_way,
    write_under_way,
)

HOUR = LakeHour("2026-11-17", "22", "orders")


def test_a_note_is_read_until_it_is_removed(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    assert read_under_way(folder) is None
    note = UnderWay(kind=COMPACTION, batch="c1", hours=(HOUR,), replaces=("a", "b"))
    write_under_way(folder, note)
    assert read_under_way(folder) == note
    end_under_way(folder)
    assert read_under_way(folder) is None
    folder.replace("under-way.json", '{"format": 1}')
    with pytest.raises(LakeDamaged, match="damaged"):
        read_under_way(folder)


def test_hours_are_named_once() -> None:
    other = LakeHour("2026-11-17", "21", "orders")
    assert hours_together([HOUR, other], (HOUR,)) == (other, HOUR)
