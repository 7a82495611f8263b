"""Access rules of a queue come from strangers as JSON: what is wrong is refused."""

from typing import Any

import pytest

from twinbus.broker.queue_description import AccessRule, queue_description
from twinbus.errors import ArgumentError, ArgumentOutOfRange

RULE = {"key_name": "shop", "primary_key": "secret", "rights": ["Send"]}


def test_rule_is_taken_as_json_has_it() -> None:
    description = queue_description({"authorization_rules": [RULE]}, "orders")
    [rule] = description.authorization_rules
    assert rule == AccessRule(key_name="shop", primary_key="secret", rights=("Send",))


def test_description_is_read_back_with_its_rules() -> None:
    description = queue_description({"authorization_rules": [RULE]}, "orders")
    assert queue_description(description.to_json(), "orders") == description


@pytest.mark.parametrize(
    "rules",
    [
        5,
        "shop",
        [5],
        [["key_name", "shop"]],
        [{**RULE, "colour": "red"}],
        [{**RULE, "key_name": 5}],
        [{**RULE, "primary_key": ""}],
        [{**RULE, "secondary_key": None}],
        [{**RULE, "rights": "Send"}],
        [{**RULE, "rights": 5}],
        [{"rights": ["Send"]}],
    ],
    ids=str,
)
def test_malformed_rule_is_refused(rules: Any) -> None:
    with pytest.raises(ArgumentError, match="orders"):
        queue_description({"authorization_rules": rules}, "orders")


def test_unknown_right_is_refused() -> None:
    rules = [{**RULE, "rights": ["Rule"]}]
    with pytest.raises(ArgumentOutOfRange, match="Send, Listen, Manage"):
        queue_description({"authorization_rules": rules}, "orders")
