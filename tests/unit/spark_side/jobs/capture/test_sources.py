"""Which rows are of which source."""

import pytest

from twinbus.spark.jobs.capture.options import CaptureOptions
from twinbus.spark.jobs.capture.sources import foreign_entities, row_key
from twinbus.spark.jobs.job_errors import JobRefused


@pytest.mark.parametrize(
    ("source", "key"),
    [
        ("Orders", "orders|"),
        ("orders/$DeadLetterQueue", "orders|deadletter"),
        ("orders/$Transfer/$DeadLetterQueue", "orders|transferdeadletter"),
        ("t/Subscriptions/S", "t/subscriptions/s|"),
    ],
)
def test_a_source_has_the_key_of_its_rows(source: str, key: str) -> None:
    assert row_key(source) == key


def test_another_namespace_is_browsed_only() -> None:
    options = CaptureOptions(credential="env:X", lake="l", entities=("/a/", "b"))
    assert [one.source for one in foreign_entities(options)] == ["a", "b"]
    for more in ({"pattern": "*"}, {"consumes": True}, {"entities": ()}):
        given = {"credential": "env:X", "lake": "l", "entities": ("a",), **more}
        with pytest.raises(JobRefused):
            foreign_entities(CaptureOptions(**given))  # type: ignore[arg-type]
