"""Where messages of an entity go."""

import pytest

from twinbus.spark.jobs.job_errors import JobRefused
from twinbus.spark.jobs.replay.targets import home_of, targets_of


@pytest.mark.parametrize(
    ("entity", "home"),
    [
        ("orders", "orders"),
        ("orders/$DeadLetterQueue", "orders"),
        ("a/b/Subscriptions/s", "a/b"),
        ("t/subscriptions/s/$deadletterqueue", "t"),
        ("t/$Transfer/$DeadLetterQueue", "t"),
    ],
)
def test_messages_go_back_where_one_sends_to(entity: str, home: str) -> None:
    assert home_of(entity) == home


def test_targets_are_for_all_or_for_each() -> None:
    entities = ["orders", "t/Subscriptions/s"]
    assert targets_of(entities, None, {}) == {
        "orders": "orders",
        "t/Subscriptions/s": "t",
    }
    assert targets_of(entities, "x", {}) == dict.fromkeys(entities, "x")
    named = targets_of(entities, None, {"Orders": "/copies/"})
    assert named == {"orders": "copies", "t/Subscriptions/s": "t"}
    for target, targets in (("x", {"orders": "y"}), (None, {"no": "y"})):
        with pytest.raises(JobRefused):
            targets_of(entities, target, targets)
    with pytest.raises(JobRefused, match="cannot be sent to"):
        targets_of(entities, None, {"orders": "t/subscriptions/s"})
