"""Parsing of entity paths."""

import pytest

from twinbus.spark.portable.entity_path import entity_path


@pytest.mark.parametrize(
    ("path", "parent", "sub_queue", "address"),
    [
        ("orders", "orders", None, ("orders", None)),
        ("a/b/c", "a/b/c", None, ("a/b/c", None)),
        ("t/Subscriptions/s", "t/subscriptions/s", None, ("t", "s")),
        (
            "orders/$DeadLetterQueue",
            "orders",
            "deadletter",
            ("orders/$DeadLetterQueue", None),
        ),
        (
            "t/subscriptions/s/$deadletterqueue",
            "t/subscriptions/s",
            "deadletter",
            ("t", "s/$deadletterqueue"),
        ),
        (
            "orders/$Transfer/$DeadLetterQueue",
            "orders",
            "transferdeadletter",
            ("orders/$Transfer/$DeadLetterQueue", None),
        ),
    ],
)
def test_a_path_has_parts(
    path: str, parent: str, sub_queue: str | None, address: tuple[str, str | None]
) -> None:
    found = entity_path(path)
    assert found.parent == parent
    assert found.sub_queue == sub_queue
    assert found.address_parts == address
