"""The vendor emulator's `Config.json`: what is read, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from twinbus.config.config import Config, ConfigError, load_config
from twinbus.rules.filters import CorrelationFilter, SqlFilter
from twinbus.rules.rule import Rule
from twinbus.rules.typed_value import typed_value


def read(folder: Path, document: object) -> Config:
    file = folder / "Config.json"
    file.write_text(json.dumps(document))
    return load_config(file, {}, {})


def namespace(**parts: object) -> dict[str, Any]:
    named = {"Name": "sbemulatorns", "Queues": [], "Topics": [], **parts}
    return {"UserConfig": {"Namespaces": [named], "Logging": {"Type": "File"}}}


def queue(**properties: object) -> dict[str, Any]:
    return namespace(Queues=[{"Name": "orders", "Properties": properties}])


def topic(**parts: object) -> dict[str, Any]:
    return namespace(Topics=[{"Name": "sales", **parts}])


def subscription(**parts: object) -> dict[str, Any]:
    return topic(Subscriptions=[{"Name": "eu", **parts}])


def rule(**properties: object) -> dict[str, Any]:
    return subscription(Rules=[{"Name": "r", "Properties": properties}])


def rules_of(config: Config) -> tuple[Rule, ...] | None:
    return config.topics["sales"].subscriptions["eu"].rules


def test_queues_are_read(tmp_path: Path) -> None:
    orders = {
        "DeadLetteringOnMessageExpiration": True,
        "DefaultMessageTimeToLive": "PT1H",
        "DuplicateDetectionHistoryTimeWindow": "PT20S",
        "ForwardDeadLetteredMessagesTo": "",
        "ForwardTo": "plain",
        "LockDuration": "PT1M",
        "MaxDeliveryCount": 3,
        "RequiresDuplicateDetection": True,
        "RequiresSession": False,
    }
    queues = [{"Name": "orders", "Properties": orders}, {"Name": "plain"}]
    assert read(tmp_path, namespace(Queues=queues)).queues == {
        "orders": {
            "dead_lettering_on_message_expiration": True,
            "default_message_time_to_live_ms": 3_600_000,
            "duplicate_detection_history_time_window_ms": 20_000,
            "forward_dead_lettered_messages_to": "",
            "forward_to": "plain",
            "lock_duration_ms": 60_000,
            "max_delivery_count": 3,
            "requires_duplicate_detection": True,
            "requires_session": False,
        },
        "plain": {},
    }


def test_topics_are_read_with_their_subscriptions(tmp_path: Path) -> None:
    document = topic(
        Properties={"DefaultMessageTimeToLive": "PT1H"},
        Subscriptions=[
            {"Name": "eu", "Properties": {"MaxDeliveryCount": 3}, "Rules": []},
            {"Name": "us", "Properties": {"ForwardTo": "", "RequiresSession": True}},
        ],
    )
    sales = read(tmp_path, document).topics["sales"]
    assert sales.properties == {"default_message_time_to_live_ms": 3_600_000}
    assert sales.subscriptions["eu"].properties == {"max_delivery_count": 3}
    # The emulator's default rule takes all, and so does ours.
    assert sales.subscriptions["eu"].rules is None
    assert sales.subscriptions["us"].properties == {
        "forward_to": "",
        "requires_session": True,
    }


def test_a_sql_rule_is_read_with_its_action(tmp_path: Path) -> None:
    document = rule(
        FilterType="Sql",
        SqlFilter={"SqlExpression": "amount > 100"},
        Action={"SqlExpression": "SET big = TRUE"},
    )
    found = rules_of(read(tmp_path, document))
    assert found is not None
    [large] = found
    assert large.name == "r"
    assert isinstance(large.filter, SqlFilter)
    assert large.filter.text == "amount > 100"
    assert large.action is not None
    assert large.action.text == "SET big = TRUE"


def test_a_correlation_rule_is_read_with_all_its_fields(tmp_path: Path) -> None:
    fields = {
        "ContentType": "application/text",
        "CorrelationId": "id1",
        "Label": "subject1",
        "MessageId": "msgid1",
        "ReplyTo": "someQueue",
        "ReplyToSessionId": "sessionId",
        "SessionId": "session1",
        "To": "xyz",
        "Properties": {"region": "eu"},
    }
    document = rule(FilterType="Correlation", CorrelationFilter=fields)
    found = rules_of(read(tmp_path, document))
    assert found is not None
    [correlated] = found
    assert isinstance(correlated.filter, CorrelationFilter)
    assert correlated.filter.fields == {
        "content_type": "application/text",
        "correlation_id": "id1",
        "label": "subject1",
        "message_id": "msgid1",
        "reply_to": "someQueue",
        "reply_to_session_id": "sessionId",
        "session_id": "session1",
        "to": "xyz",
    }
    assert correlated.filter.properties == {"region": typed_value("string", "eu")}


def test_a_window_without_duplicate_detection_is_no_matter(tmp_path: Path) -> None:
    # The emulator allows five seconds, the service twenty.
    document = queue(DuplicateDetectionHistoryTimeWindow="PT5S")
    assert read(tmp_path, document).queues == {"orders": {}}


def test_a_window_that_is_too_short_is_the_shortest(tmp_path: Path) -> None:
    document = queue(
        DuplicateDetectionHistoryTimeWindow="PT5S", RequiresDuplicateDetection=True
    )
    assert read(tmp_path, document).queues["orders"] == {
        "duplicate_detection_history_time_window_ms": 20_000,
        "requires_duplicate_detection": True,
    }


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ([], "the file must be a JSON object"),
        (
            {"UserConfig": {"Namespaces": {"Name": "x"}}},
            "'Namespaces'.*must be a JSON array",
        ),
        ({"UserConfig": {"Namespaces": [{}, {}]}}, "has one.*namespaces.NAME"),
        ({"UserConfig": {"Namespaces": [1]}}, "item of 'Namespaces' must be a JSON"),
        (namespace(Queue=[]), "the namespace: unknown name 'Queue'; known are Name, Q"),
        (namespace(Queues=[{}]), "a queue of the namespace has no 'Name'"),
        (
            namespace(Queues=[{"Name": "q"}, {"Name": "q"}]),
            "two queues of the namespace are called 'q'",
        ),
        (
            queue(LockDuartion="PT1M"),
            "queue 'orders': unknown property 'LockDuartion'; known are .*LockDuration",
        ),
        (queue(LockDuration="1 min"), "queue 'orders': LockDuration: '1 min' is not"),
        (queue(MaxDeliveryCount=0), "queue 'orders': .* must be from 1"),
        (topic(Subscription=[]), "topic 'sales': unknown name 'Subscription'"),
        (
            topic(Properties={"LockDuration": "PT1M"}),
            "topic 'sales': unknown property 'LockDuration'",
        ),
        (
            subscription(Properties={"RequiresDuplicateDetection": True}),
            "subscription 'eu' of topic 'sales': unknown property 'RequiresDup",
        ),
        (
            subscription(Rules=[{"Name": "r"}]),
            "topic 'sales' rule 'r': FilterType is None; it must be one of Sql, Corr",
        ),
        (rule(FilterType="Sql"), "SqlFilter: 'SqlExpression' is missing"),
        (
            rule(FilterType="Sql", SqlFilter={"Expression": "1=1"}),
            "SqlFilter: unknown property 'Expression'; known are SqlExpression",
        ),
        (
            rule(FilterType="Sql", SqlFilter={"SqlExpression": "a >"}),
            "subscription 'eu' of topic 'sales' rule 'r': ",
        ),
        (
            rule(FilterType="Correlation", CorrelationFilter={"Subject": "x"}),
            "CorrelationFilter: unknown property 'Subject'; known are ContentType",
        ),
        (rule(FilterType="Correlation"), "rule 'r': .*names no property"),
        (
            rule(FilterType="Sql", SqlFilter={"SqlExpression": "1=1"}, Actoin={}),
            "rule 'r': unknown property 'Actoin'; known are FilterType",
        ),
    ],
)
def test_what_the_file_may_not_say(
    tmp_path: Path, document: object, complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint) as refused:
        read(tmp_path, document)
    assert "Config.json: " in str(refused.value)
