"""Which subscriptions get a message, and how."""

import pytest
from unit.rules.plain_view import PlainView

from twinbus.rules.filters import FalseFilter, Filter, TrueFilter
from twinbus.rules.index import RuleIndex
from twinbus.rules.rule import Rule
from twinbus.rules.sql.rule_checks import (
    check_rule,
    correlation_filter,
    sql_action,
    sql_filter,
)


def rule(name: str, filter: Filter, action: str | None = None) -> Rule:
    return check_rule(name, filter, sql_action(action) if action else None, 0)


def index_of(**filters: Filter) -> RuleIndex:
    """One subscription per filter, named alike."""
    index = RuleIndex()
    for key, filter in filters.items():
        index.add(key, rule("r", filter))
    return index


def selected(index: RuleIndex, view: PlainView) -> set[str]:
    return {one.subscription_key for one in index.match(view) if one.plain}


EUROPE = PlainView({"region": "eu", "size": 3}, {"label": "order", "to": "a"})


def test_subscription_without_rules_gets_nothing() -> None:
    assert RuleIndex().match(EUROPE) == []


def test_true_filter_matches_everything_and_false_nothing() -> None:
    index = index_of(all=TrueFilter(), none=FalseFilter())
    assert selected(index, EUROPE) == {"all"}
    assert selected(index, PlainView()) == {"all"}


def test_correlation_filters_match_by_all_their_properties() -> None:
    index = index_of(
        label=correlation_filter({"label": "order"}),
        both=correlation_filter({"label": "order"}, {"region": "eu"}),
        other=correlation_filter({"label": "order"}, {"region": "us"}),
        absent=correlation_filter({}, {"colour": "red"}),
    )
    assert selected(index, EUROPE) == {"label", "both"}


@pytest.mark.parametrize(
    ("wanted", "found", "matches"),
    [
        ("eu", "eu", True),
        ("eu", "EU", False),
        (1, 1, True),
        (1, 1.0, False),
        (1, True, False),
        (1, "1", False),
        (True, True, True),
        (1.5, 1.5, True),
        (b"a", b"a", True),
        (b"a", "a", False),
        ("eu", None, False),
    ],
)
def test_correlation_compares_value_and_type(
    wanted: object, found: object, matches: bool
) -> None:
    index = index_of(one=correlation_filter({}, {"p": wanted}))
    assert bool(index.match(PlainView({"p": found}))) is matches


def test_names_of_correlated_properties_have_no_case() -> None:
    index = index_of(one=correlation_filter({}, {"ReGion": "eu"}))
    assert selected(index, EUROPE) == {"one"}


def test_sql_filters_match_looked_up_or_evaluated() -> None:
    index = index_of(
        equal=sql_filter("region = 'eu'"),
        other=sql_filter("region = 'us'"),
        joined=sql_filter("size > 2 AND 'eu' = region"),
        joined_not=sql_filter("size > 3 AND region = 'eu'"),
        scanned=sql_filter("size + 1 = 4"),
        either=sql_filter("region = 'us' OR size = 3"),
        double=sql_filter("size = 3.0"),
        system=sql_filter("sys.Label = 'order'"),
        user=sql_filter("Label = 'order'"),
    )
    assert selected(index, EUROPE) == {
        *("equal", "joined", "scanned", "either", "double", "system"),
    }


def test_rules_without_action_make_one_copy_and_each_with_one_its_own() -> None:
    index = RuleIndex()
    index.add("s", rule("a", TrueFilter()))
    index.add("s", rule("b", sql_filter("region = 'eu'")))
    index.add("s", rule("c", sql_filter("region = 'eu'"), "SET x = 1"))
    index.add("s", rule("d", TrueFilter(), "SET x = 2"))
    index.add("s", rule("e", sql_filter("region = 'us'"), "SET x = 3"))
    [matched] = index.match(EUROPE)
    assert matched.plain
    assert {one.name for one in matched.actions} == {"c", "d"}
    assert matched.error is None


def test_failed_filter_is_reported_for_each_subscription_that_has_it() -> None:
    index = RuleIndex()
    index.add("a", rule("r", sql_filter("sys.Nonsense = 1")))
    index.add("b", rule("r", sql_filter("sys.Nonsense = 1")))
    index.add("b", rule("s", TrueFilter()))
    matches = {one.subscription_key: one for one in index.match(EUROPE)}
    assert "sys.nonsense" in str(matches["a"].error)
    assert not matches["a"].plain
    assert "sys.nonsense" in str(matches["b"].error)
    assert matches["b"].plain


def test_failure_is_not_hidden_by_a_constant_that_differs() -> None:
    index = index_of(one=sql_filter("region = 'us' AND 1 / 0 = 1"))
    assert index.match(EUROPE) == []
    [matched] = index.match(PlainView())
    assert "divided by zero" in str(matched.error)


def test_matches_of_one_message_do_not_leak_into_the_next() -> None:
    index = RuleIndex()
    index.add("s", rule("a", TrueFilter(), "SET x = 1"))
    index.add("s", rule("b", sql_filter("region = 'eu'"), "SET x = 2"))
    for _ in range(2):
        [matched] = index.match(EUROPE)
        assert len(matched.actions) == 2
        [matched] = index.match(PlainView())
        assert len(matched.actions) == 1


def test_removed_rules_match_no_more_and_leave_nothing() -> None:
    filters: list[Filter] = [
        TrueFilter(),
        FalseFilter(),
        correlation_filter({"label": "order"}),
        sql_filter("region = 'eu'"),
        sql_filter("size < 9"),
    ]
    index = RuleIndex()
    for number, filter in enumerate(filters):
        for key in ("a", "b"):
            index.add(key, rule(f"r{number}", filter))
    assert selected(index, EUROPE) == {"a", "b"}
    index.remove_subscription("a")
    assert selected(index, EUROPE) == {"b"}
    assert (index.sql_rule_count, index.correlation_rule_count) == (2, 1)
    for number in range(len(filters)):
        removed = index.remove("b", f"R{number}")
        assert removed is not None and removed.name == f"r{number}"
    assert index.match(EUROPE) == []
    assert index.rules("b") == []
    assert (index.sql_rule_count, index.correlation_rule_count) == (0, 0)


def test_removing_what_is_not_there_says_so() -> None:
    index = index_of(s=TrueFilter())
    assert index.remove("s", "other") is None
    assert index.remove("other", "r") is None


def test_rules_are_found_by_name_without_case_and_listed_in_order() -> None:
    index = RuleIndex()
    for name in ("Zeta", "alpha"):
        index.add("s", rule(name, TrueFilter()))
    found = index.rule("s", "ZETA")
    assert found is not None and found.name == "Zeta"
    assert index.rule("s", "beta") is None
    assert index.rule("t", "zeta") is None
    assert [one.name for one in index.rules("s")] == ["Zeta", "alpha"]
