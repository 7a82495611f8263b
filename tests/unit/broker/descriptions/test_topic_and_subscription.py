"""Descriptions of topics and subscriptions: what differs from a queue's."""

import json

import pytest

from twinbus.broker.descriptions.subscription import (
    SubscriptionDescription,
    subscription_description,
)
from twinbus.broker.descriptions.topic import TopicDescription, topic_description
from twinbus.broker.fragment_settings import NO_LIMIT
from twinbus.errors import ArgumentError, ArgumentOutOfRange, NotAllowed


def test_defaults_are_those_of_the_service() -> None:
    topic = topic_description({}, "t")
    assert topic == TopicDescription()
    assert topic.duplicate_detection_history_time_window_ms == 600_000
    assert topic.settings("T").max_size_bytes == 1024 * 1024 * 1024
    subscription = subscription_description({}, "t/Subscriptions/s")
    assert subscription == SubscriptionDescription()
    assert subscription.dead_lettering_on_filter_evaluation_exceptions
    assert subscription.max_delivery_count == 10


def test_the_size_of_a_subscription_is_its_topics_matter() -> None:
    assert SubscriptionDescription().settings("t/s").max_size_bytes == NO_LIMIT


def test_settings_of_a_subscription_are_its_own() -> None:
    properties = {
        "lock_duration_ms": 5_000,
        "max_delivery_count": 3,
        "default_message_time_to_live_ms": 1_000,
        "dead_lettering_on_message_expiration": True,
    }
    settings = subscription_description(properties, "t/s").settings("t/s")
    assert (settings.lock_duration_ms, settings.max_delivery_count) == (5_000, 3)
    assert (settings.default_ttl_ms, settings.dead_letter_on_expiration) == (
        1_000,
        True,
    )


def test_descriptions_survive_json() -> None:
    topic = topic_description({"support_ordering": False, "status": "Disabled"}, "t")
    assert topic_description(json.loads(json.dumps(topic.to_json())), "t") == topic
    given = {"requires_session": True, "user_metadata": "x"}
    subscription = subscription_description(given, "t/s")
    stored = json.loads(json.dumps(subscription.to_json()))
    assert subscription_description(stored, "t/s") == subscription


def test_a_topic_has_no_locks_and_a_subscription_no_size() -> None:
    with pytest.raises(ArgumentError, match="'t' has no property 'lock_duration_ms'"):
        topic_description({"lock_duration_ms": 5_000}, "t")
    with pytest.raises(ArgumentError, match="no property 'max_size_in_megabytes'"):
        subscription_description({"max_size_in_megabytes": 1024}, "t/s")


def test_limits_are_checked() -> None:
    with pytest.raises(ArgumentOutOfRange, match="must be from 20000 ms"):
        topic_description({"duplicate_detection_history_time_window_ms": 1}, "t")
    with pytest.raises(ArgumentOutOfRange, match="must be from 5000 ms"):
        subscription_description({"lock_duration_ms": 1}, "t/s")


def test_what_is_decided_at_creation_cannot_be_updated() -> None:
    for name in (
        "requires_duplicate_detection",
        "enable_partitioning",
        "enable_subscription_partitioning",
    ):
        with pytest.raises(NotAllowed, match=name):
            topic_description({name: True}, "t", TopicDescription())
    with pytest.raises(NotAllowed, match="requires_session"):
        subscription_description(
            {"requires_session": True}, "t/s", SubscriptionDescription()
        )


def test_a_disabled_topic_takes_nothing_and_a_disabled_subscription_gives_nothing() -> (
    None
):
    for status, may_send, may_receive in (
        ("Active", True, True),
        ("Disabled", False, False),
        ("SendDisabled", False, True),
        ("ReceiveDisabled", True, False),
    ):
        assert TopicDescription(status=status).may_send() is may_send
        assert SubscriptionDescription(status=status).may_receive() is may_receive
