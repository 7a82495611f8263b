"""Names of folders."""

import pytest

from twinbus.spark.jobs.lake.layout import LakeHour, date_of, entity_of, hour_of


@pytest.mark.parametrize(
    "entity", ["orders", "a/b", "orders/$DeadLetterQueue", "t/Subscriptions/s"]
)
def test_an_entity_is_known_by_its_folder(entity: str) -> None:
    hour = LakeHour("2026-11-17", "07", entity)
    name, date, last = hour.path.split("/")
    assert (entity_of(name), date_of(date), hour_of(last)) == (
        entity,
        "2026-11-17",
        "07",
    )
    assert hour.manifest == f"manifest/{hour.path}.json"
    assert hour.batch("b") == f"messages/{hour.path}/batch=b"


def test_other_names_are_none_of_these() -> None:
    assert entity_of("coverage") is date_of("x") is hour_of(".hour=07.json") is None
    assert hour_of("hour=07.json") == "07"


def test_hours_are_sorted_by_time() -> None:
    hours = [LakeHour("2026-11-17", "07", "a"), LakeHour("2026-11-16", "23", "b")]
    assert sorted(hours) == hours[::-1]
