"""Which hours are sent together."""

from dataclasses import replace

from unit.spark_side.jobs.lake.test_manifest import BATCH, PART

from twinbus.spark.jobs.lake.layout import LakeHour
from twinbus.spark.jobs.lake.manifest import HourManifest
from twinbus.spark.jobs.replay.running import portions


def hour(name: str, entity: str, count: int) -> HourManifest:
    batch = replace(BATCH, parts=(replace(PART, count=count),))
    at = LakeHour("2026-11-17", name, entity)
    return HourManifest(hour=at, batches=(batch,))


def test_hours_of_one_time_stay_together() -> None:
    hours = [
        hour("01", "a", 300_000),
        hour("01", "b", 300_000),
        hour("02", "a", 10),
        hour("03", "a", 499_000),
        hour("04", "a", 2_000),
    ]
    found = [[one.hour.hour for one in portion] for portion in portions(hours)]
    assert found == [["01", "01"], ["02", "03"], ["04"]]
    assert list(portions([])) == []
