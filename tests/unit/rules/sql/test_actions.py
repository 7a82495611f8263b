"""SQL actions: statements, their order, and the types of what they set."""

from uuid import UUID

import pytest
from unit.rules.plain_view import PlainView

from twinbus.errors import ArgumentError
from twinbus.limits import ACTION_STATEMENTS
from twinbus.rules.action import Changes
from twinbus.rules.filter_error import FilterError
from twinbus.rules.sql.rule_checks import sql_action
from twinbus.rules.values import MISSING, Duration, Instant

VIEW = PlainView(
    {"n": 5, "half": 0.5, "s": "text", "yes": True, "nil": None},
    {"label": "order"},
    entropy=bytes(range(16)),
)


def changes(text: str, **parameters: object) -> Changes:
    return sql_action(text, parameters).changes(VIEW)


def test_set_creates_and_replaces_and_remove_removes() -> None:
    found = changes("SET n = n + 1; SET fresh = 'a'; REMOVE s; REMOVE missing")
    assert found.user_changes == {
        "n": 6,
        "fresh": "a",
        "s": MISSING,
        "missing": MISSING,
    }
    assert found.system_changes == {}


@pytest.mark.parametrize(
    "text",
    [
        *("SET a = 1; SET b = 2", "SET a = 1, SET b = 2", "SET a = 1 SET b = 2"),
        *("SET a = 1; SET b = 2;", "set a=1;set b=2;;", ";SET a = 1;,SET b = 2"),
    ],
)
def test_statements_are_separated_by_semicolons_commas_or_nothing(text: str) -> None:
    assert changes(text).user_changes == {"a": 1, "b": 2}


def test_statements_see_what_was_changed_before_them() -> None:
    found = changes("SET a = n; REMOVE n; SET b = n; SET sys.Label = a; SET c = a + a")
    assert found.user_changes == {"a": 5, "n": MISSING, "b": None, "c": 10}
    assert found.system("label") == "5"
    assert found.system("to") is None
    assert found.user("s") == "text"


def test_names_keep_the_spelling_of_the_statement() -> None:
    found = changes("SET Fresh = 1; SET FRESH = 2; SET [odd name] = 3")
    assert found.user_changes == {"fresh": 2, "odd name": 3}
    assert found.spellings == {"fresh": "Fresh", "odd name": "odd name"}


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("SET s = 5", "s", "5"),
        ("SET s = 0.5", "s", "0.5"),
        ("SET s = TRUE", "s", "true"),
        ("SET s = NULL", "s", None),
        ("SET s = newid()", "s", "00010203-0405-4607-8809-0a0b0c0d0e0f"),
        ("SET n = '7'", "n", 7),
        ("SET n = 7.0", "n", 7),
        ("SET n = 7.5", "n", 7.5),
        ("SET n = 'seven'", "n", "seven"),
        ("SET n = 1E300 * 1E300", "n", float("inf")),
        ("SET half = 2", "half", 2.0),
        ("SET half = '1.5'", "half", 1.5),
        ("SET half = 'x'", "half", "x"),
        ("SET half = TRUE", "half", True),
        ("SET yes = 'FALSE'", "yes", False),
        ("SET yes = 'no'", "yes", "no"),
        ("SET nil = 3", "nil", 3),
        ("SET fresh = (n > 4)", "fresh", True),
        ("SET fresh = missing + 1", "fresh", None),
    ],
)
def test_set_keeps_the_type_that_is_there_if_the_value_has_it(
    text: str, name: str, value: object
) -> None:
    found = changes(text).user_changes[name]
    assert found == value
    assert type(found) is type(value)


def test_new_property_has_the_type_of_the_expression() -> None:
    found = changes("SET id = newid(); SET at = @at", at=Instant(5)).user_changes
    assert found["id"] == UUID("00010203-0405-4607-8809-0a0b0c0d0e0f")
    assert found["at"] == Instant(5)


def test_system_properties_are_set_as_text() -> None:
    found = changes(
        "SET sys.MessageId = newid(); SET sys.CorrelationId = n; SET sys.To = yes;"
        "SET sys.Subject = half; SET sys.ReplyTo = @d; REMOVE sys.SessionId;"
        "SET sys.ContentType = NULL",
        d=Duration(90_000),
    ).system_changes
    assert found == {
        "messageid": "00010203-0405-4607-8809-0a0b0c0d0e0f",
        "correlationid": "5",
        "to": "true",
        "label": "0.5",
        "replyto": "P0DT0H1M30S",
        "sessionid": None,
        "contenttype": None,
    }


def test_times_of_a_message_need_values_of_their_type() -> None:
    found = changes("SET sys.TimeToLive = @d", d=Duration(5)).system_changes
    assert found == {"timetolive": Duration(5)}
    found = changes("SET sys.ScheduledEnqueueTimeUtc = @at", at=Instant(5))
    assert found.system_changes == {"scheduledenqueuetimeutc": Instant(5)}
    with pytest.raises(FilterError, match=r"timetolive.*'5'.*a duration"):
        changes("SET sys.TimeToLive = '5'")
    with pytest.raises(FilterError, match="a time"):
        changes("SET sys.ScheduledEnqueueTimeUtc = 5")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("SET sys.SequenceNumber = 1", "'sys.sequencenumber' is read-only"),
        ("REMOVE sys.EnqueuedTimeUtc", "'sys.enqueuedtimeutc' is read-only"),
        ("SET a = 1; SET sys.Nonsense = 1", "'sys.nonsense' does not exist"),
        ("SET a", "ends too early. Expected is '='"),
        ("SET 1 = a", "Expected is a property"),
        ("REMOVE", "Expected is a property"),
        ("a = 1", "found 'a'. Expected is SET, REMOVE"),
        (";", "ends too early"),
        ("SET a = 1 AND b = 2", "found 'AND'"),
        ("SET a = n > 4", "found '>'"),
    ],
)
def test_what_is_no_action_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ArgumentError) as refusal:
        sql_action(text)
    assert problem in refusal.value.text


def test_action_has_a_limited_number_of_statements() -> None:
    assert len(sql_action("REMOVE a;" * ACTION_STATEMENTS).statements) == 32
    with pytest.raises(ArgumentError, match="33 statements; at most 32"):
        sql_action("REMOVE a;" * (ACTION_STATEMENTS + 1))


def test_failing_expression_fails_the_action() -> None:
    with pytest.raises(FilterError, match="divided by zero"):
        changes("SET a = n / 0")
    with pytest.raises(FilterError, match=r"sys\.nonsense"):
        changes("SET a = sys.Nonsense")
