"""Rules made from requests, and read from their stored form."""

import json

import pytest

from twinbus.errors import ArgumentError, ArgumentOutOfRange
from twinbus.limits import (
    ACTION_CHARACTERS,
    FILTER_CHARACTERS,
    RULE_VALUE_CHARACTERS,
    RULE_VALUES,
)
from twinbus.rules.filters import (
    CorrelationFilter,
    FalseFilter,
    Filter,
    SqlFilter,
    TrueFilter,
)
from twinbus.rules.rule import DEFAULT_RULE, Rule, default_rule
from twinbus.rules.sql.rule_checks import (
    check_rule,
    correlation_filter,
    rule_of_json,
    sql_action,
    sql_filter,
)
from twinbus.rules.typed_value import typed_value

VALUES = {
    "text": typed_value("string", "a"),
    "number": typed_value("int", "5"),
    "long": typed_value("long", "5"),
    "double": typed_value("double", "0.50"),
    "flag": typed_value("boolean", "false"),
    "time": typed_value("dateTime", "2020-07-05T11:12:13"),
    "span": typed_value("duration", "P1DT2H3M"),
    "id": typed_value("guid", "00000000-0000-0000-0000-000000000001"),
    "binary": typed_value("base64Binary", "AAE="),
}


def stored_and_read(rule: Rule) -> Rule:
    return rule_of_json(json.loads(json.dumps(rule.to_json())))


@pytest.mark.parametrize("name", ["$Default", "a", "A.b-c_1", "x" * 50])
def test_names_of_rules(name: str) -> None:
    assert check_rule(name, TrueFilter(), None, 5).name == name


@pytest.mark.parametrize("name", ["", "x" * 51])
def test_length_of_a_name_is_limited(name: str) -> None:
    with pytest.raises(ArgumentOutOfRange, match=f"{len(name)}.*between 1 and 50"):
        check_rule(name, TrueFilter(), None, 0)


@pytest.mark.parametrize("name", ["a b", "a/b", "größe", "a\n", "a?", "a\0b"])
def test_names_have_ordinary_characters(name: str) -> None:
    with pytest.raises(ArgumentError, match="letters, digits"):
        check_rule(name, TrueFilter(), None, 0)


def test_default_rule_lets_everything_pass() -> None:
    rule = default_rule(5)
    assert rule.name == DEFAULT_RULE == "$Default"
    assert isinstance(rule.filter, TrueFilter)
    assert rule.action is None
    assert rule.created_at == 5


@pytest.mark.parametrize(
    ("filter", "kind"), [(TrueFilter(), TrueFilter), (FalseFilter(), FalseFilter)]
)
def test_simple_filters_survive_the_store(filter: Filter, kind: type) -> None:
    read = stored_and_read(check_rule("r", filter, None, 7))
    assert (read.name, read.created_at, read.action) == ("r", 7, None)
    assert isinstance(read.filter, kind)


def test_sql_rule_survives_the_store_with_types_and_texts() -> None:
    filter = sql_filter("a = @text AND b = @number", VALUES)
    action = sql_action("SET a = @time", {"@time": VALUES["time"]})
    read = stored_and_read(check_rule("r", filter, action, 7))
    assert isinstance(read.filter, SqlFilter)
    assert read.filter.text == filter.text
    assert read.filter.parameters == VALUES
    assert read.action is not None
    assert read.action.text == "SET a = @time"
    assert read.action.parameters == {"@time": VALUES["time"]}


def test_correlation_rule_survives_the_store_with_types_and_texts() -> None:
    fields = {"correlation_id": "c", "label": "", "to": None}
    filter = correlation_filter(fields, VALUES)
    read = stored_and_read(check_rule("r", filter, None, 7))
    assert isinstance(read.filter, CorrelationFilter)
    assert read.filter.fields == {"correlation_id": "c", "label": ""}
    assert read.filter.properties == VALUES
    assert read.filter.key == filter.key


def test_correlation_filter_needs_a_property() -> None:
    for fields in ({}, {"label": None}):
        with pytest.raises(ArgumentError, match="names no property"):
            correlation_filter(fields)


@pytest.mark.parametrize("value", [1, [], {}, True])
def test_fields_of_a_correlation_filter_are_texts(value: object) -> None:
    document = {"kind": "correlation", "fields": {"label": value}, "properties": {}}
    with pytest.raises(ArgumentError, match="label of the correlation filter"):
        rule_of_json({"name": "r", "filter": document, "created_at": 0})


def test_correlation_filter_knows_its_fields() -> None:
    with pytest.raises(ArgumentError, match=r"'subject'.*correlation_id, message_id"):
        correlation_filter({"subject": "a"})


def test_values_are_limited_in_number_and_length() -> None:
    many = {f"p{number}": 1 for number in range(RULE_VALUES + 1)}
    with pytest.raises(ArgumentOutOfRange, match=r"65.*between 0 and 64"):
        sql_filter("a = 1", many)
    with pytest.raises(ArgumentOutOfRange, match="65"):
        correlation_filter({}, many)
    long = "x" * (RULE_VALUE_CHARACTERS + 1)
    with pytest.raises(ArgumentError, match="1025 characters; at most 1024"):
        correlation_filter({}, {"a": long})
    with pytest.raises(ArgumentOutOfRange, match="1025"):
        correlation_filter({"label": long})
    with pytest.raises(ArgumentError, match="not too long"):
        correlation_filter({}, {long: "a"})


@pytest.mark.parametrize("names", [("a", "A"), ("@a", "a"), ("",), ("@",)])
def test_names_of_values_are_there_once(names: tuple[str, ...]) -> None:
    with pytest.raises(ArgumentError, match="parameters of the filter"):
        sql_filter("a = 1", dict.fromkeys(names, 1))


def test_value_of_a_type_that_rules_do_not_have_is_refused() -> None:
    with pytest.raises(ArgumentError, match="string, boolean"):
        sql_filter("a = @p", {"p": ["list"]})


def test_texts_are_limited() -> None:
    fitting = "a = '" + "x" * (FILTER_CHARACTERS - 6) + "'"
    assert len(fitting) == FILTER_CHARACTERS
    assert sql_filter(fitting).text == fitting
    with pytest.raises(ArgumentError, match="1025 characters; at most 1024"):
        sql_filter(fitting + " ")
    fitting = "SET a = '" + "x" * (ACTION_CHARACTERS - 10) + "'"
    assert sql_action(fitting).text == fitting
    with pytest.raises(ArgumentError, match="action has 1025 characters"):
        sql_action(fitting + " ")
