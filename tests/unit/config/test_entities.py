"""Entities of a configuration file: what is read, and what is refused."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from twinbus.broker.descriptions.access_rule import AccessRule
from twinbus.config.config import Config, ConfigError, load_config
from twinbus.config.entities import DeclaredSubscription
from twinbus.rules.filters import CorrelationFilter, SqlFilter, TrueFilter
from twinbus.rules.rule import Rule
from twinbus.rules.typed_value import typed_value


def read(folder: Path, text: str) -> Config:
    file = folder / "bus.toml"
    file.write_text(text)
    return load_config(file, {}, {})


def subscription(config: Config) -> DeclaredSubscription:
    return config.topics["orders"].subscriptions["billing"]


def rules(folder: Path, text: str) -> tuple[Rule, ...]:
    header = "[[topics.orders.subscriptions.billing.rules]]\n"
    found = subscription(read(folder, header + text)).rules
    assert found is not None
    return found


def test_topics_and_subscriptions_have_all_their_properties(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        """
        [topics.orders]
        default_message_time_to_live = "7d"
        duplicate_detection_history_time_window = "PT1M"
        requires_duplicate_detection = true
        support_ordering = false
        auto_delete_on_idle = "1h"
        [[topics.orders.authorization_rules]]
        key_name = "shop"
        primary_key = "k"
        rights = ["Send"]
        [topics.orders.subscriptions.billing]
        lock_duration = "30s"
        requires_session = true
        dead_lettering_on_filter_evaluation_exceptions = false
        forward_dead_lettered_messages_to = "failed"
        [topics.orders.subscriptions.audit]
        forward_to = "archive"
        """,
    )
    topic = config.topics["orders"]
    assert topic.properties == {
        "default_message_time_to_live_ms": 7 * 86_400_000,
        "duplicate_detection_history_time_window_ms": 60_000,
        "requires_duplicate_detection": True,
        "support_ordering": False,
        "auto_delete_on_idle_ms": 3_600_000,
        "authorization_rules": [
            AccessRule(key_name="shop", primary_key="k", rights=("Send",))
        ],
    }
    assert topic.subscriptions == {
        "billing": DeclaredSubscription(
            properties={
                "lock_duration_ms": 30_000,
                "requires_session": True,
                "dead_lettering_on_filter_evaluation_exceptions": False,
                "forward_dead_lettered_messages_to": "failed",
            }
        ),
        "audit": DeclaredSubscription(properties={"forward_to": "archive"}),
    }
    assert config.file == str(tmp_path / "bus.toml")


def test_rules_that_are_not_named_differ_from_none(tmp_path: Path) -> None:
    declared = "[topics.orders.subscriptions.billing]\n"
    assert subscription(read(tmp_path, declared)).rules is None
    assert subscription(read(tmp_path, declared + "rules = []")).rules == ()


def test_a_sql_rule_has_parameters_and_an_action(tmp_path: Path) -> None:
    [rule] = rules(
        tmp_path,
        """
        name = "large"
        sql_filter = "amount > @limit AND at < @until"
        parameters = { limit = 100, until = 2030-01-01T00:00:00Z }
        action = "SET priority = @priority"
        action_parameters = { priority = "high" }
        """,
    )
    assert isinstance(rule.filter, SqlFilter)
    assert rule.filter.text == "amount > @limit AND at < @until"
    until = datetime(2030, 1, 1, tzinfo=UTC).isoformat()
    assert rule.filter.parameters == {
        "limit": typed_value("long", "100"),
        "until": typed_value("dateTime", until),
    }
    assert rule.action is not None
    assert rule.action.text == "SET priority = @priority"
    assert rule.action.parameters == {"priority": typed_value("string", "high")}


def test_a_correlation_rule_has_fields_and_properties(tmp_path: Path) -> None:
    [rule] = rules(
        tmp_path,
        """
        name = "eu"
        correlation_filter = { label = "order", properties = { region = "eu" } }
        """,
    )
    assert isinstance(rule.filter, CorrelationFilter)
    assert rule.filter.fields == {"label": "order"}
    assert rule.filter.properties == {"region": typed_value("string", "eu")}
    assert rule.action is None


def test_a_rule_without_filter_takes_everything(tmp_path: Path) -> None:
    [rule] = rules(tmp_path, 'name = "all"\naction = "REMOVE secret"')
    assert isinstance(rule.filter, TrueFilter)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("topics = 1", "bus.toml: topics: must be a table"),
        ("[topics]\nt = 1", r"\[topics.t\]: must be a table"),
        ("[topics.t]\nlock_duration = '1m'", "topic 't': 't' has no property 'lock_d"),
        ("[topics.'$bad']", r"topic '\$bad': .* not a valid entity path"),
        ("[topics.t]\nsubscriptions = 1", r"\[topics.t.subscriptions\]: must be a tab"),
        ("[topics.t.subscriptions.'a/b']", "subscription 'a/b' of topic 't': .* valid"),
        (
            "[topics.t.subscriptions.s]\nmax_size_in_megabytes = 1024",
            "subscription 's' of topic 't': 's' has no property 'max_size_in_",
        ),
        (
            "[topics.t.subscriptions.s]\nlock_duration = 'x'",
            r"\[topics.t.subscriptions.s\] lock_duration: 'x' is not a duration",
        ),
        ("[queues.a]\n[queues.A]", "queues and topics 'a' and 'A' have one name"),
        ("[queues.a]\n[topics.A]", "queues and topics 'a' and 'A' have one name"),
        (
            "[topics.t.subscriptions.s]\n[topics.t.subscriptions.S]",
            "topic 't': subscriptions 's' and 'S' have one name",
        ),
        (
            "[topics.t.subscriptions.s]\nrules = 1",
            r"\[topics.t.subscriptions.s\]: rules must be a list of tables",
        ),
        (
            "[topics.t.subscriptions.s]\nrules = [1]",
            r"\[topics.t.subscriptions.s\] rule 1: must be a table",
        ),
        (
            "[topics.t.subscriptions.s]\nrules = [{name = 'a'}, {name = 'A'}]",
            "two rules are called 'A'",
        ),
    ],
)
def test_mistakes_name_their_place(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "rule 1: 'name' is missing"),
        ("name = 1", "rule 1: name: 1 is not a text"),
        ('name = "a b"', "rule 'a b': .*expected letters, digits"),
        (
            'name = "r"\nsql = "x"',
            "rule 'r': unknown name 'sql'; known are name, sql_fil",
        ),
        ('name = "r"\nsql_filter = 1', "rule 'r': sql_filter: 1 is not a text"),
        ('name = "r"\nsql_filter = "a >"', "rule 'r': "),
        (
            'name = "r"\nsql_filter = "a = 1"\ncorrelation_filter = {}',
            "give 'sql_filter' or 'correlation_filter', not both",
        ),
        ('name = "r"\nparameters = {}', "'parameters' are those of a 'sql_filter'"),
        (
            'name = "r"\nsql_filter = "a = 1"\nparameters = 1',
            "parameters: 1 is not a table",
        ),
        (
            'name = "r"\nsql_filter = "a=@b"\nparameters = { b = 2030-01-01T00:00:00 }',
            "parameters: b: 2030-01-01 00:00:00 has no offset from UTC",
        ),
        (
            'name = "r"\nsql_filter = "a = @b"\nparameters = { b = [1] }',
            "rule 'r': .*value of a rule",
        ),
        ('name = "r"\ncorrelation_filter = 1', "correlation_filter: 1 is not a table"),
        ('name = "r"\ncorrelation_filter = {}', "names no property"),
        ('name = "r"\ncorrelation_filter = { label = 1 }', "label: 1 is not a text"),
        (
            'name = "r"\ncorrelation_filter = { subject = "x" }',
            "unknown name 'subject'; known are correlation_id.*, properties",
        ),
        ('name = "r"\naction_parameters = {}', "'action_parameters' are given, and"),
        ('name = "r"\naction = "DROP x"', "rule 'r': "),
    ],
)
def test_mistakes_of_rules_name_the_rule(
    tmp_path: Path, text: str, complaint: str
) -> None:
    header = "[[topics.orders.subscriptions.billing.rules]]\n"
    with pytest.raises(ConfigError, match=complaint) as refused:
        read(tmp_path, header + text)
    assert "bus.toml: [topics.orders.subscriptions.billing]" in str(refused.value)


def test_settings_of_the_quotas(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "max_entity_megabytes": 81_920,
        "max_subscriptions_per_topic": 1,
        "max_sql_rules_per_topic": 2,
        "max_correlation_rules_per_topic": 3,
    }
    lines = "\n".join(f"{name} = {value}" for name, value in settings.items())
    assert read(tmp_path, f"[server]\n{lines}") == Config(**settings)
