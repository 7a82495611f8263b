"""A lake: made, opened, its hours found."""

from pathlib import Path

import pytest

from twinbus.spark.jobs.lake.errors import LakeDamaged, LakeError
from twinbus.spark.jobs.lake.folder import LocalFolder
from twinbus.spark.jobs.lake.lake import made_lake, open_lake
from twinbus.spark.jobs.lake.layout import LakeHour
from twinbus.spark.jobs.lake.manifest import HourManifest, write_manifest

from .test_manifest import BATCH

HOURS = [
    LakeHour("2026-11-16", "23", "orders"),
    LakeHour("2026-11-17", "00", "Orders/$DeadLetterQueue"),
    LakeHour("2026-11-17", "22", "orders"),
]
MIDNIGHT = 1_794_873_600_000


def test_hours_are_found_by_entity_and_time(tmp_path: Path) -> None:
    lake = made_lake(LocalFolder(tmp_path), "bus@1", "parquet", "now")
    for hour in HOURS:
        manifest = HourManifest(hour=hour, batches=(BATCH,))
        write_manifest(lake.folder, lake.identity.lake, manifest)
    again = made_lake(LocalFolder(tmp_path), "bus@1", "parquet", "later")
    assert again.identity == lake.identity == open_lake(lake.folder).identity
    assert lake.hours() == HOURS
    assert lake.hours(["ORDERS"]) == [HOURS[0], HOURS[2]]
    assert lake.hours(start_at=MIDNIGHT) == HOURS[1:]
    assert lake.hours(end_at=MIDNIGHT - 1) == HOURS[:1]
    assert lake.entities() == ["Orders/$DeadLetterQueue", "orders"]
    with pytest.raises(LakeDamaged, match=r"part-0\.parquet is gone"):
        lake.check_files(lake.manifest(HOURS[0]))
    (tmp_path / HOURS[0].batch(BATCH.batch)).mkdir(parents=True)
    (tmp_path / HOURS[0].batch(BATCH.batch) / "part-0.parquet").write_bytes(b"x" * 7)
    with pytest.raises(LakeDamaged, match="has 7 bytes; by the manifest it has 8"):
        lake.check_files(lake.manifest(HOURS[0]))


def test_a_lake_that_is_another_ones_is_told(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path, "the lake")
    with pytest.raises(LakeError, match="the lake has no lake"):
        open_lake(folder)
    made_lake(folder, "bus@1", "parquet", "now")
    with pytest.raises(LakeError, match="lake of the namespace 'bus@1'"):
        made_lake(folder, "bus@2", "parquet", "now")
    with pytest.raises(LakeError, match="as parquet, and delta was asked for"):
        made_lake(folder, "bus@1", "delta", "now")
    folder.remove("lake.json")
    folder.replace("messages/x", "")
    with pytest.raises(LakeError, match=r"has messages and no lake\.json"):
        made_lake(folder, "bus@1", "parquet", "now")
