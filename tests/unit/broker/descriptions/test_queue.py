"""Descriptions of queues: defaults, limits, and errors that name the property."""

import json
from typing import Any

import pytest

from twinbus.broker.descriptions.access_rule import AccessRule
from twinbus.broker.descriptions.forward_path import forward_path
from twinbus.broker.descriptions.queue import QueueDescription, queue_description
from twinbus.errors import ArgumentError, ArgumentOutOfRange, NotAllowed
from twinbus.limits import DURATION_MS_UNLIMITED

RULE = {"key_name": "app", "primary_key": "secret", "rights": ["Send", "Listen"]}


def test_defaults_are_those_of_the_service() -> None:
    description = queue_description({}, "orders")
    assert description == QueueDescription()
    settings = description.settings("Orders")
    assert (settings.path, settings.lock_duration_ms) == ("Orders", 60_000)
    assert (settings.max_delivery_count, settings.default_ttl_ms) == (10, 0)
    assert settings.max_size_bytes == 1024 * 1024 * 1024


def test_description_survives_json() -> None:
    description = queue_description(
        {"authorization_rules": [RULE], "user_metadata": "x", "status": "Disabled"}, "q"
    )
    stored = json.loads(json.dumps(description.to_json()))
    assert queue_description(stored, "q") == description


def test_only_what_differs_from_the_defaults_is_stored() -> None:
    assert queue_description({}, "q").to_json() == {}
    given = {"lock_duration_ms": 5_000, "requires_session": False}
    assert queue_description(given, "q").to_json() == {"lock_duration_ms": 5_000}


def test_update_keeps_what_it_does_not_name() -> None:
    base = queue_description({"max_delivery_count": 3}, "q")
    updated = queue_description({"lock_duration_ms": 5_000}, "q", base)
    assert (updated.max_delivery_count, updated.lock_duration_ms) == (3, 5_000)


@pytest.mark.parametrize(
    ("status", "may_send", "may_receive"),
    [
        ("Active", True, True),
        ("Disabled", False, False),
        ("SendDisabled", False, True),
        ("ReceiveDisabled", True, False),
    ],
)
def test_status_says_what_may_be_done(
    status: str, may_send: bool, may_receive: bool
) -> None:
    description = queue_description({"status": status}, "q")
    assert (description.may_send(), description.may_receive()) == (
        may_send,
        may_receive,
    )


def test_for_ever_is_kept_as_zero() -> None:
    for ttl, kept in (
        (DURATION_MS_UNLIMITED - 1, DURATION_MS_UNLIMITED - 1),
        (DURATION_MS_UNLIMITED, 0),
    ):
        found = queue_description({"default_message_time_to_live_ms": ttl}, "q")
        assert found.default_message_time_to_live_ms == kept


def test_unknown_properties_are_refused_with_the_known_ones() -> None:
    with pytest.raises(ArgumentError, match=r"no property 'colour'.*lock_duration_ms"):
        queue_description({"colour": 1}, "q")


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("lock_duration_ms", "60", "must be of type int, not str"),
        ("lock_duration_ms", True, "must be of type int, not bool"),
        ("max_delivery_count", 1.5, "must be of type int, not float"),
        ("enable_batched_operations", 1, "must be of type bool, not int"),
        ("status", None, "must be of type str, not NoneType"),
    ],
)
def test_properties_of_a_wrong_type_are_refused(
    name: str, value: Any, text: str
) -> None:
    with pytest.raises(ArgumentError, match=f"'{name}' of 'q' {text}"):
        queue_description({name: value}, "q")


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("lock_duration_ms", 4_999, "is 4999 ms; it must be from 5000 ms to 300000 ms"),
        ("lock_duration_ms", 300_001, "is 300001 ms"),
        ("max_delivery_count", 0, "is 0; it must be from 1 to 2147483647"),
        ("default_message_time_to_live_ms", -1, "is -1 ms; it must be from 0 ms"),
        (
            "duplicate_detection_history_time_window_ms",
            19_999,
            "must be from 20000 ms to 604800000 ms",
        ),
        ("duplicate_detection_history_time_window_ms", 604_800_001, "is 604800001 ms"),
        ("duplicate_detection_history_time_window_ms", 0, "is 0 ms"),
        ("auto_delete_on_idle_ms", 299_999, "must be from 300000 ms"),
        ("max_message_size_in_kilobytes", 102_401, "it must be from 0 to 102400"),
        ("max_size_in_megabytes", 1_000, "must be one of 1024, 2048, 3072, 4096, 5120"),
        ("user_metadata", "x" * 1_025, "is 1025; it must be from 0 to 1024"),
        ("status", "Asleep", "is Asleep; it must be one of Active, Disabled"),
    ],
)
def test_values_out_of_range_are_refused_with_the_limits(
    name: str, value: Any, text: str
) -> None:
    with pytest.raises(ArgumentOutOfRange, match=text):
        queue_description({name: value}, "q")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lock_duration_ms", 5_000),
        ("lock_duration_ms", 300_000),
        ("max_delivery_count", 2_147_483_647),
        ("max_size_in_megabytes", 5_120),
        ("user_metadata", "x" * 1_024),
        ("max_message_size_in_kilobytes", 102_400),
        ("duplicate_detection_history_time_window_ms", 20_000),
        ("duplicate_detection_history_time_window_ms", 604_800_000),
        ("auto_delete_on_idle_ms", 300_000),
        ("auto_delete_on_idle_ms", 0),
    ],
)
def test_values_at_the_limits_are_taken(name: str, value: Any) -> None:
    assert getattr(queue_description({name: value}, "q"), name) == value


@pytest.mark.parametrize(
    "name", ["requires_session", "requires_duplicate_detection", "enable_partitioning"]
)
def test_what_is_decided_at_creation_cannot_be_updated(name: str) -> None:
    base = queue_description({name: True}, "q")
    assert queue_description({name: True}, "q", base) == base
    with pytest.raises(NotAllowed, match=f"'{name}' of 'q' is True and cannot be"):
        queue_description({name: False}, "q", base)


# --- forwarding -----------------------------------------------------------------


def test_the_service_takes_forwarding_with_sessions_and_so_do_we() -> None:
    properties = {"requires_session": True, "forward_to": "sb://bus/orders"}
    assert queue_description(properties, "q").forward_to == "sb://bus/orders"


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("", ""),
        ("orders", "orders"),
        ("/a/b/", "a/b"),
        ("sb://bus.local:5672/a/b", "a/b"),
        ("https://bus.local/a%2Fb?api-version=2021-05", "a/b"),
        ("sb://bus.local", ""),
    ],
)
def test_forward_targets_are_paths_or_uris(target: str, path: str) -> None:
    assert forward_path(target) == path


# --- access rules ---------------------------------------------------------------


def test_rules_are_taken_as_objects_or_as_json() -> None:
    rule = AccessRule(key_name="app", primary_key="secret", rights=("Send", "Listen"))
    for given in (RULE, rule):
        found = queue_description({"authorization_rules": [given]}, "q")
        assert found.authorization_rules == (rule,)


def test_rules_never_show_their_keys() -> None:
    rule = AccessRule(key_name="app", primary_key="secret", secondary_key="secret")
    assert "secret" not in repr(rule) and "secret" not in str(rule)


@pytest.mark.parametrize(
    "rules",
    [
        5,
        [5],
        [{}],
        [{"key_name": "app"}],
        [{**RULE, "colour": "red"}],
        [{**RULE, "primary_key": ""}],
        [{**RULE, "key_name": 7}],
        [{**RULE, "rights": "Send"}],
    ],
)
def test_malformed_rules_are_refused(rules: Any) -> None:
    with pytest.raises(ArgumentError, match="'q' must"):
        queue_description({"authorization_rules": rules}, "q")


def test_unknown_rights_are_refused_with_the_known_ones() -> None:
    rules = [{**RULE, "rights": ["Fly"]}]
    with pytest.raises(ArgumentOutOfRange, match=r"'app'.*Fly.*Send, Listen, Manage"):
        queue_description({"authorization_rules": rules}, "q")
