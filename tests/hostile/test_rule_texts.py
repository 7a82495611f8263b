"""Malicious SQL texts: they are refused or parsed, quickly and with any stack.

No server is needed: clients that add rules can only reach the library with their texts.
Time limits are generous, since machines differ; exponential work would not take seconds
but years.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.rules.plain_view import PlainView

from twinbus.errors import ArgumentError
from twinbus.limits import ACTION_STATEMENTS, FILTER_CHARACTERS, PROPERTIES_BYTES
from twinbus.rules.filter_error import FilterError
from twinbus.rules.index import RuleIndex
from twinbus.rules.rule import Rule
from twinbus.rules.sql.rule_checks import sql_action, sql_filter

SECONDS = 5.0


@contextmanager
def soon() -> Iterator[None]:
    start = time.monotonic()
    yield
    assert time.monotonic() - start < SECONDS


def filled(head: str, repeated: str, tail: str) -> str:
    """As long as a filter may be."""
    count = (FILTER_CHARACTERS - len(head) - len(tail)) // len(repeated)
    return head + repeated * count + tail


def parenthesised(open_text: str) -> str:
    count = (FILTER_CHARACTERS - len("a = 1")) // (len(open_text) + 1)
    return open_text * count + "a = 1" + ")" * count


DEEP = [
    filled("", "NOT ", "a"),
    filled("", "-", "a = 1"),
    filled("", "- ", "a = 1"),
    filled("a = 1", " + 1", ""),
    filled("a = 1", "*a", ""),
    parenthesised("-("),
    parenthesised("NOT ("),
    parenthesised("p("),
    parenthesised("1 = ("),
    filled("a LIKE 'x'", " + 'x'", ""),
]
LONG = [
    parenthesised("("),
    filled("a = 1", " OR a = 1", ""),
    filled("a = 1", " AND a = 1", ""),
    filled("a IN (1", ", 1", ")"),
    filled("a", " ", " = 1"),
    filled("[", "x", "] = 1"),
    filled("a = '", "''", "'"),
    filled("[", "]]", "] = 1"),
    filled('"', '""', '" = 1'),
    filled("a = 0.", "1", ""),
    filled("a = 0", "0", "1"),
    filled("a", "a", " = 1"),
]


def on_a_small_stack(work: Callable[[], None]) -> None:
    """Runs where a thousand nested calls are not to be had, and tells what came out."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    before = threading.stack_size(512 * 1024)
    limit = sys.getrecursionlimit()
    try:
        thread = threading.Thread(target=run)
        sys.setrecursionlimit(400)
        thread.start()
        thread.join()
    finally:
        sys.setrecursionlimit(limit)
        threading.stack_size(before)
    if failures:
        raise failures[0]


@pytest.mark.parametrize("text", DEEP, ids=lambda text: text[:8])
def test_deep_nesting_is_refused(text: str) -> None:
    sql_filter("a = 1")

    def parse() -> None:
        with soon(), pytest.raises(ArgumentError, match="nested deeper than 64"):
            sql_filter(text)

    on_a_small_stack(parse)


@pytest.mark.parametrize("text", LONG, ids=lambda text: text[:8])
def test_long_texts_are_read_and_evaluated(text: str) -> None:
    sql_filter("a = 1")

    def parse_and_evaluate() -> None:
        with soon():
            parsed = sql_filter(text)
            parsed.predicate.evaluate(PlainView({"a": 1}))
            assert not parsed.predicate.may_fail()

    on_a_small_stack(parse_and_evaluate)


def test_deepest_nesting_that_is_allowed_is_evaluated() -> None:
    parsed = sql_filter("NOT " * 62 + "a = 1")
    on_a_small_stack(lambda: check_selects(parsed.selects(PlainView({"a": 1}))))
    with pytest.raises(ArgumentError):
        sql_filter("NOT " * 63 + "a = 1")


def check_selects(selected: bool) -> None:
    assert selected


@pytest.mark.parametrize(
    "text",
    [
        filled("", "(", ""),
        filled("", ")", ""),
        filled("a = '", "x", ""),
        filled("a = ", "''", "'"),
        filled("[", "x", ""),
        filled("[", "]]", ""),
        filled('"', '""', ""),
        filled("", "'", "x"),
        filled("a = ", "9", ""),
        filled("a = 1E", "9", ""),
        filled("a = 1", "E1", ""),
        filled("", "a ", ""),
        filled("", "AND ", ""),
        filled("", "a.", ""),
        filled("", "@", ""),
        filled("", "f(", ""),
        filled("a = 1", "\0", ""),
        "a = 1\0",
        "\0",
        "a = '\0",
        "\ud800 = 1",
        "a = 1 /* comment */",
        "a = 1; DROP TABLE messages",
        "1 = 1 UNION SELECT *",
        "\u202ea = 1",
        "a\u200b = 1",
        "a = \u2018x\u2019",
        "\uff41 \uff1d 1",
        "a = \u0661",
    ],
    ids=range(29),
)
def test_malformed_texts_are_refused_with_a_short_reason(text: str) -> None:
    with soon(), pytest.raises(ArgumentError) as refusal:
        sql_filter(text)
    assert "line 1, column" in refusal.value.text
    assert len(refusal.value.text) < 500


def test_odd_characters_in_quotes_mean_themselves() -> None:
    for odd in ("\0", "\u202e", "\U0001f600", "\ufeff", "%", "e\u0301"):
        assert sql_filter(f"[{odd}] = '{odd}'").selects(PlainView({odd: odd}))
    # No normalisation: the same letter in two ways is two texts.
    assert not sql_filter("a = '\u00e9'").selects(PlainView({"a": "e\u0301"}))


@given(text=st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        sql_filter(text)
    except ArgumentError as refusal:
        assert len(refusal.text) < 1000


TOKENS = (
    *("a", "sys.", "user.", "[b]", '"c"', "1", "2.5", "'x'", "@p", "NULL", "TRUE"),
    *("AND", "OR", "NOT", "IN", "IS", "LIKE", "ESCAPE", "EXISTS", "SET", "REMOVE"),
    *("(", ")", ",", ";", "=", "<>", "<", "+", "-", "*", "/", "%", "newid()", "p("),
)


@given(tokens=st.lists(st.sampled_from(TOKENS), max_size=20))
def test_any_row_of_tokens_is_read_or_refused(tokens: list[str]) -> None:
    text = " ".join(tokens)
    try:
        sql_filter(text, {"p": 1}).selects(PlainView({"a": 1}))
    except (ArgumentError, FilterError):
        pass
    try:
        sql_action(text, {"p": 1}).changes(PlainView({"a": 1}))
    except (ArgumentError, FilterError):
        pass


@pytest.mark.parametrize(
    "pattern",
    ["%a" * 400, "%a%a_" * 200, "_%" * 400, "%" * 900, "%" + "a_" * 400, "a%" * 400],
    ids=lambda pattern: pattern[:6],
)
def test_no_pattern_explodes(pattern: str) -> None:
    matcher = sql_filter(f"a LIKE '{pattern}b'")
    with soon():
        assert not matcher.selects(PlainView({"a": "a" * PROPERTIES_BYTES}))


def test_pattern_of_a_message_is_no_longer_than_one_of_a_filter() -> None:
    half = PROPERTIES_BYTES // 2
    view = PlainView({"a": "a" * half, "b": "%a_" * (half // 3)})
    with soon(), pytest.raises(FilterError, match="at most 1024"):
        sql_filter("a LIKE b").selects(view)


def test_doubling_action_ends_at_the_size_of_a_message() -> None:
    action = sql_action("SET a = a + a;" * ACTION_STATEMENTS)
    with soon(), pytest.raises(FilterError, match="A concatenated text has"):
        action.changes(PlainView({"a": "x" * 1000}))


def test_multiplying_action_ends_at_64_bits() -> None:
    action = sql_action("SET a = a * a;" * ACTION_STATEMENTS)
    with soon(), pytest.raises(FilterError, match="64 bits"):
        action.changes(PlainView({"a": 10}))


def test_thousand_nasty_rules_are_asked_in_reasonable_time() -> None:
    index = RuleIndex()
    for number in range(1000):
        filter = sql_filter(f"a LIKE '%{number}%a_' OR a LIKE '_%{number}'")
        index.add(str(number), Rule("r", filter, None, 0))
    with soon():
        matches = index.match(PlainView({"a": "1" * 200}))
    assert {one.subscription_key for one in matches} == {"1", "11", "111"}
