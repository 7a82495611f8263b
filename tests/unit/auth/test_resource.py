"""All spellings of an entity are normalized to one path."""

import pytest

from twinbus.auth.resource import address_path, audience_path, covers, scope_path


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("orders", "orders"),
        ("/orders", "orders"),
        ("/Orders/$DeadLetterQueue", "Orders/$DeadLetterQueue"),
        ("amqps://host/orders", "orders"),
        ("amqps://host:5671/a/b/c", "a/b/c"),
        ("amqp://host/my%20queue", "my queue"),
        ("t/Subscriptions/s", "t/Subscriptions/s"),
        ("$cbs", "$cbs"),
        ("orders/$management", "orders/$management"),
        ("amqps://host", ""),
        ("amqps://host/", ""),
        ("", ""),
    ],
)
def test_address_gives_the_path_as_it_was_spelled(address: str, path: str) -> None:
    assert address_path(address) == path


@pytest.mark.parametrize(
    ("audience", "path"),
    [
        ("sb://localhost:5672/Orders", "orders"),
        ("sb://host:5672/q/$management", "q"),
        ("amqps://host/q/$MANAGEMENT", "q"),
        ("amqp://host/q", "q"),
        (
            "amqps://host/t/Subscriptions/s/$DeadLetterQueue/$management",
            "t/subscriptions/s/$deadletterqueue",
        ),
        ("sb://host/my%20queue", "my queue"),
        ("sb://host/", ""),
        ("$management", ""),
    ],
)
def test_audience_gives_the_entity_in_lower_case(audience: str, path: str) -> None:
    assert audience_path(audience) == path


@pytest.mark.parametrize(
    ("resource", "path"),
    [
        ("sb://h:5672/Q", "q"),
        ("amqps://h/", ""),
        ("https://h:5300", ""),
        ("https://h:5300/q?api-version=2021-05&enrich=False", "q"),
        ("https://h/q#part", "q"),
        ("localhost:5672", ""),
        ("name.example.net/q", "q"),
    ],
)
def test_scope_always_begins_with_a_host(resource: str, path: str) -> None:
    assert scope_path(resource) == path


@pytest.mark.parametrize(
    ("scope", "path"),
    [
        ("", "orders"),
        ("", ""),
        ("orders", "orders"),
        ("ORDERS", "orders/$deadletterqueue"),
        ("a/b", "A/B/c"),
    ],
)
def test_scope_covers_itself_and_what_is_below(scope: str, path: str) -> None:
    assert covers(scope, path)


@pytest.mark.parametrize(
    ("scope", "path"),
    [("ord", "orders"), ("orders", "ord"), ("orders", ""), ("a/b", "a"), ("b", "a/b")],
)
def test_scope_does_not_cover_half_a_segment_or_a_parent(scope: str, path: str) -> None:
    assert not covers(scope, path)
