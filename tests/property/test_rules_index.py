"""The index finds the same as evaluating every rule, after any changes."""

from hypothesis import given, settings
from hypothesis import strategies as st
from unit.rules.plain_view import PlainView

from twinbus.rules.filter_error import FilterError
from twinbus.rules.filters import FalseFilter, Filter, TrueFilter
from twinbus.rules.index import RuleIndex
from twinbus.rules.rule import Rule
from twinbus.rules.sql.rule_checks import (
    check_rule,
    correlation_filter,
    sql_action,
    sql_filter,
)

Outcome = tuple[bool, frozenset[str], bool]

VALUES = st.sampled_from((1, 2, 1.0, True, "a", "A", "1", None, b"a"))
PRESENT = st.sampled_from((1, 2, 1.0, True, "a", "A", "1"))
USER_NAMES = ("p", "q")

SQL_TEXTS = (
    "p = 1",
    "p = 1.0",
    "p = 'a'",
    "'a' = p",
    "P = 'A'",
    "p = TRUE",
    "p = NULL",
    "p = 1 AND q = 'a'",
    "q <> 'a' AND p = 'a'",
    "p = 1 OR q = 1",
    "NOT p = 1",
    "q LIKE 'a%' AND p = '1'",
    "p = q",
    "p + 1 = 2",
    "p = 'a' AND q / 0 = 1",
    "sys.Label = 'a' AND p IS NULL",
    "sys.Label = 'a'",
    "label = 'a'",
    "sys.Nonsense = 1",
    "p = 1 AND sys.Nonsense = 1",
    "p IN (1, 'a')",
    "p",
)

FILTERS = st.one_of(
    st.sampled_from((TrueFilter(), FalseFilter())),
    st.sampled_from(SQL_TEXTS).map(sql_filter),
    PRESENT.map(lambda value: sql_filter("p = @v", {"v": value})),
    PRESENT.map(lambda value: correlation_filter({}, {"p": value})),
    st.builds(
        lambda p, q: correlation_filter({}, {"Q": q, "p": p}), p=PRESENT, q=PRESENT
    ),
    st.sampled_from(("a", "b")).map(lambda text: correlation_filter({"label": text})),
    PRESENT.map(lambda value: correlation_filter({"label": "a"}, {"p": value})),
)
MESSAGES = st.builds(
    PlainView,
    user=st.dictionaries(st.sampled_from(USER_NAMES), VALUES),
    system=st.fixed_dictionaries({"label": st.sampled_from(("a", "b", None))}),
)
PLACES = st.tuples(st.sampled_from(("s", "t", "u")), st.sampled_from(("1", "2", "3")))
ADDED = st.tuples(st.just("add"), PLACES, FILTERS, st.booleans())
REMOVED = st.tuples(st.just("remove"), PLACES, st.none(), st.none())
STEPS = st.lists(st.one_of(ADDED, ADDED, REMOVED), max_size=12)

ACTION = sql_action("SET x = 1")


def brute_force(
    rules: dict[tuple[str, str], Rule], view: PlainView
) -> dict[str, Outcome]:
    """Every rule asked; subscriptions with nothing to tell left out."""
    outcomes: dict[str, Outcome] = {}
    for (key, _), rule in rules.items():
        plain, actions, failed = outcomes.get(key, (False, frozenset(), False))
        try:
            selected = rule.filter.selects(view)
        except FilterError:
            selected, failed = False, True
        if selected and rule.action is None:
            plain = True
        elif selected:
            actions |= {rule.name}
        outcomes[key] = (plain, actions, failed)
    nothing = (False, frozenset[str](), False)
    return {key: found for key, found in outcomes.items() if found != nothing}


def looked_up(index: RuleIndex, view: PlainView) -> dict[str, Outcome]:
    matches = index.match(view)
    found = {
        one.subscription_key: (
            one.plain,
            frozenset(rule.name for rule in one.actions),
            one.error is not None,
        )
        for one in matches
    }
    assert len(found) == len(matches)
    return found


def apply(
    step: tuple[str, tuple[str, str], Filter | None, bool | None],
    index: RuleIndex,
    rules: dict[tuple[str, str], Rule],
) -> None:
    kind, (key, name), filter, acts = step
    if rules.pop((key, name), None) is not None:
        index.remove(key, name)
    if kind == "add":
        assert filter is not None
        rule = check_rule(name, filter, ACTION if acts else None, 0)
        rules[key, name] = rule
        index.add(key, rule)


@settings(max_examples=400)
@given(steps=STEPS, messages=st.lists(MESSAGES, min_size=1, max_size=4))
def test_index_finds_what_asking_every_rule_finds(
    steps: list[tuple[str, tuple[str, str], Filter | None, bool | None]],
    messages: list[PlainView],
) -> None:
    index = RuleIndex()
    rules: dict[tuple[str, str], Rule] = {}
    for step in steps:
        apply(step, index, rules)
        for view in messages:
            assert looked_up(index, view) == brute_force(rules, view)
    for key in ("s", "t", "u"):
        index.remove_subscription(key)
    assert all(index.match(view) == [] for view in messages)
    assert (index.sql_rule_count, index.correlation_rule_count) == (0, 0)
