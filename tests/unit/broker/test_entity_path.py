"""Parsing of addresses, and invalid names."""

import pytest

from twinbus.broker.entity_path import (
    check_entity_name,
    check_subscription_name,
    parse_entity_path,
    split_subscription_path,
    subscription_path,
)
from twinbus.broker.fragment import DEAD_LETTER, MAIN, TRANSFER_DEAD_LETTER
from twinbus.errors import ArgumentError


@pytest.mark.parametrize(
    ("path", "entity", "sub_queue", "is_management"),
    [
        ("orders", "orders", MAIN, False),
        ("Orders/New", "Orders/New", MAIN, False),
        ("orders/$DeadLetterQueue", "orders", DEAD_LETTER, False),
        ("orders/$deadletterqueue", "orders", DEAD_LETTER, False),
        ("orders/$management", "orders", MAIN, True),
        ("orders/$Management", "orders", MAIN, True),
        ("orders/$DeadLetterQueue/$management", "orders", DEAD_LETTER, True),
        ("$management", "", MAIN, True),
        ("/$management", "", MAIN, True),
        ("orders$management", "orders$management", MAIN, False),
        ("$DeadLetterQueue", "$DeadLetterQueue", MAIN, False),
        ("orders/$Transfer/$DeadLetterQueue", "orders", TRANSFER_DEAD_LETTER, False),
        ("t/Subscriptions/s/$deadletterqueue", "t/Subscriptions/s", DEAD_LETTER, False),
        ("", "", MAIN, False),
    ],
)
def test_addresses_are_taken_apart(
    path: str, entity: str, sub_queue: int, is_management: bool
) -> None:
    found = parse_entity_path(path)
    assert found.entity == entity
    assert found.sub_queue == sub_queue
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


@pytest.mark.parametrize("name", ["Subscriptions/a", "a/subscriptions/b"])
def test_word_that_parts_topics_from_subscriptions_is_no_name(name: str) -> None:
    with pytest.raises(ArgumentError, match="'Subscriptions' is reserved"):
        check_entity_name(name)


@pytest.mark.parametrize("name", ["a", "A.b-c_1", "x" * 50])
def test_subscription_names_are_taken(name: str) -> None:
    check_subscription_name(name)


@pytest.mark.parametrize("name", ["", "a/b", "-a", "a b", "$a", "x" * 51])
def test_other_subscription_names_are_refused(name: str) -> None:
    with pytest.raises(ArgumentError, match="subscription name"):
        check_subscription_name(name)


def test_subscription_paths_are_put_together_and_taken_apart() -> None:
    path = subscription_path("a/b", "c")
    assert path == "a/b/Subscriptions/c"
    assert split_subscription_path("a/b/subscriptions/c") == ("a/b", "c")
