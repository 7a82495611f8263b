"""Addresses taken apart, and names that no entity can have."""

import pytest

from twinbus.broker.entity_path import check_entity_name, parse_entity_path
from twinbus.errors import ArgumentError


@pytest.mark.parametrize(
    ("path", "entity", "is_dead_letter_queue", "is_management"),
    [
        ("orders", "orders", False, False),
        ("Orders/New", "Orders/New", False, False),
        ("orders/$DeadLetterQueue", "orders", True, False),
        ("orders/$deadletterqueue", "orders", True, False),
        ("orders/$management", "orders", False, True),
        ("orders/$Management", "orders", False, True),
        ("orders/$DeadLetterQueue/$management", "orders", True, True),
        ("$management", "", False, True),
        ("/$management", "", False, True),
        ("orders$management", "orders$management", False, False),
        ("$DeadLetterQueue", "$DeadLetterQueue", False, False),
        ("", "", False, False),
    ],
)
def test_addresses_are_taken_apart(
    path: str, entity: str, is_dead_letter_queue: bool, is_management: bool
) -> None:
    found = parse_entity_path(path)
    assert found.entity == entity
    assert found.is_dead_letter_queue == is_dead_letter_queue
    assert found.is_management == is_management


def test_paths_are_compared_without_case_and_shown_as_written() -> None:
    found = parse_entity_path("Orders/$deadletterQueue")
    assert (found.key, found.text) == ("orders", "Orders/$DeadLetterQueue")
    assert parse_entity_path("Orders").text == "Orders"


@pytest.mark.parametrize("name", ["a", "A1", "a.b-c_d/e", "x" * 260, "a_", "a.", "0"])
def test_names_of_letters_digits_and_a_few_signs_are_taken(name: str) -> None:
    check_entity_name(name)


@pytest.mark.parametrize(
    "name", ["", "/a", "a/", "-a", ".a", "a//b", "a b", "a\n", "$cbs", "a$", "\u00e9"]
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(ArgumentError, match="not a valid entity path"):
        check_entity_name(name)


def test_long_names_are_refused_with_the_limit() -> None:
    with pytest.raises(ArgumentError, match="261 characters; at most 260"):
        check_entity_name("x" * 261)
