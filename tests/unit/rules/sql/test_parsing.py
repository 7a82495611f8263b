"""The SQL of filters: every rule of the grammar, parsed and evaluated."""

import subprocess
import sys

import pytest
from unit.rules.plain_view import PlainView

from twinbus.errors import ArgumentError
from twinbus.rules.filter_error import FilterError
from twinbus.rules.sql.rule_checks import sql_filter
from twinbus.rules.values import Duration, Instant

VIEW = PlainView(
    {
        "n": 5,
        "half": 0.5,
        "s": "text",
        "yes": True,
        "no": False,
        "nil": None,
        "Property With Space": 1,
        "a]b": 2,
        'a"b': 3,
        "größe": 4,
        "in": 6,
        "set": 7,
        "pattern": "t%",
        "pointer": "n",
        "p": 8,
        "sys": 9,
    },
    {"label": "order", "size": 100, "to": None, "timetolive": Duration(60_000)},
)


def outcome(text: str, **parameters: object) -> object:
    return sql_filter(text, parameters).predicate.evaluate(VIEW)


@pytest.mark.parametrize(
    "text",
    [
        # Comparisons
        *("n = 5", "n <> 4", "n != 4", "n > 4", "n >= 5", "n < 6", "n <= 5"),
        *("5 = n", "n = half * 10", "s = 'text'", "s > 'Text'", "yes = TRUE"),
        # Constants
        *("n = 5.0", "half = .5", "half = 5E-1", "half = 0.5e0", "n = 5."),
        *("half < 1E3", "s <> 'it''s'", "'' = ''", "true", "TrUe", "not FALSE"),
        "-9223372036854775807 < 9223372036854775807",
        # Names
        *("[Property With Space] = 1", "[a]]b] = 2", '"a""b" = 3', "größe = 4"),
        *("GRÖSSE IS NULL", "N = 5", "[n] = 5", '"N" = 5', "[in] = 6", "set = 7"),
        *("user.n = 5", "USER.[n] = 5", "sys.Label = 'order'", "SYS.label = 'order'"),
        *("sys.Subject = 'order'", "sys.[Size] = 100", "p = 8", "sys = 9"),
        # Logic
        *("yes", "NOT no", "yes AND NOT no", "no OR yes", "no AND no OR yes"),
        *("NOT no AND yes", "NOT (no AND yes)", "(((yes)))", "NOT NOT yes"),
        *("yes OR missing", "missing OR yes", "NOT (no AND missing)"),
        "NOT n = 4",
        # IS NULL, EXISTS
        *("missing IS NULL", "nil IS NULL", "n IS NOT NULL", "sys.To IS NULL"),
        *("EXISTS(n)", "exists ( user.n )", "EXISTS(nil)", "NOT EXISTS(missing)"),
        *("EXISTS(sys.Label)", "NOT EXISTS(sys.To)", "n + missing IS NULL"),
        # IN
        *("n IN (5)", "n in (1, 2 + 3)", "n NOT IN (4, 'x', NULL)", "s IN ('text')"),
        *("n IN (missing, 5)", "n NOT IN (missing)"),
        # LIKE
        *("s LIKE 'te%'", "s LIKE '_ex_'", "s NOT LIKE 'x%'", "s LIKE pattern"),
        *(
            "s LIKE 't' + '%'",
            "'5%' LIKE '_!%' ESCAPE '!'",
            "'a%' LIKE 'a\\%' ESCAPE '\\'",
        ),
        # Arithmetic: precedence and signs
        *("1 + 2 * 3 = 7", "(1 + 2) * 3 = 9", "10 - 4 - 3 = 3", "12 / 3 / 2 = 2"),
        *("7 % 4 = 3", "-n = -5", "- -5 = n", "+n = 5", "2 * -3 = -6", "n - -1 = 6"),
        *("n-1=4", "s + '!' = 'text!'", "-half = -0.5", "+half = .5"),
        # Functions
        *("property('n') = 5", "P('n') = 5", "p(pointer) = 5", "property('N') = 5"),
        *("p('sys.Label') = 'order'", "p('user.n') = 5", "p('missing') IS NULL"),
        *("newid() IS NOT NULL", "p(1) IS NULL"),
        # Spaces
        "\n\tn\r\n=\u00a05 ",
    ],
)
def test_outcome_is_true(text: str) -> None:
    assert outcome(text) is True


@pytest.mark.parametrize(
    "text",
    [
        *("n = 4", "n <> 5", "n > 5", "s = 'Text'", "no", "yes AND no", "NOT yes"),
        *("no AND missing", "missing AND no", "NOT (yes OR missing)"),
        *("nil IS NOT NULL", "EXISTS(missing)", "n IN (4, '5')", "n NOT IN (5)"),
        *("s LIKE 'x%'", "s NOT LIKE 'te%'", "sys.Label = 'Order'", "n IN (missing)"),
    ],
)
def test_outcome_is_false(text: str) -> None:
    assert outcome(text) is False


@pytest.mark.parametrize(
    "text",
    [
        *(
            "missing = 1",
            "missing <> 1",
            "NOT missing = 1",
            "nil = NULL",
            "NULL = NULL",
        ),
        *("n = '5'", "n <> '5'", "s = 5", "s > 5", "yes = 1", "yes > no"),
        *(
            "missing",
            "NOT missing",
            "yes AND missing",
            "missing AND yes",
            "no OR missing",
        ),
        *("missing OR no", "missing IN (1)", "missing NOT IN (1)", "missing LIKE 'a'"),
        *("s LIKE missing", "s NOT LIKE missing", "s LIKE 'a' ESCAPE missing"),
        *("s LIKE 'a' ESCAPE '!!'", "s LIKE 'a' ESCAPE ''", "n LIKE '5'", "s LIKE 5"),
        *("n + missing = 1", "-missing = 1", "-s = 1", "s + n = 'text5'"),
        *("n AND yes", "NOT s", "missing = missing", "sys.To = 'a'"),
    ],
)
def test_unknown_outcome_selects_nothing(text: str) -> None:
    found = outcome(text)
    assert found is None
    assert not sql_filter(text).selects(VIEW)


def test_value_that_is_no_truth_selects_nothing() -> None:
    assert not sql_filter("n").selects(VIEW)
    assert not sql_filter("'true'").selects(VIEW)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("sys.Nonsense = 1", "sys.nonsense"),
        ("sys.Nonsense IS NULL", "sys.nonsense"),
        ("EXISTS(sys.Nonsense)", "sys.nonsense"),
        ("p('sys.Nonsense') = 1", "sys.nonsense"),
        ("n / 0 = 1", "divided by zero"),
        ("n * 9223372036854775807 = 1", "64 bits"),
    ],
)
def test_what_cannot_be_evaluated_is_an_error(text: str, problem: str) -> None:
    parsed = sql_filter(text)
    assert parsed.predicate.may_fail()
    with pytest.raises(FilterError, match=problem):
        parsed.selects(VIEW)


def test_logic_stops_when_the_outcome_is_certain() -> None:
    assert outcome("yes OR 1 / 0 = 1") is True
    assert outcome("no AND 1 / 0 = 1") is False
    with pytest.raises(FilterError):
        outcome("missing AND 1 / 0 = 1")


def test_parameters_are_constants_whatever_the_case_of_their_names() -> None:
    assert outcome("n = @five", five=5) is True
    assert outcome("s = @TEXT", **{"@text": "text"}) is True
    assert outcome("s LIKE @p1 AND n > @p2", p1="t%", p2=4) is True
    assert outcome("sys.TimeToLive = @ttl", ttl=Duration(60_000)) is True
    assert outcome("@when < @then", when=Instant(1), then=Instant(2)) is True
    assert outcome("n = 5", unused=1) is True


def test_parser_is_not_imported_before_a_text_is_read() -> None:
    code = (
        "import sys; import twinbus.rules.sql.rule_checks as checks;"
        "assert 'lark' not in sys.modules;"
        "checks.sql_filter('a = 1');"
        "assert 'lark' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize(
    ("text", "where", "problem"),
    [
        ("a =", "line 1, column 4", "ends too early. Expected is a property"),
        ("a == 1", "line 1, column 4", "found '='"),
        ("a = 1\nAND", "line 2, column 4", "a property, a constant, '(' or NOT"),
        ("a = 1 b", "line 1, column 7", "found 'b'. Expected is"),
        ("a IS 5", "line 1, column 6", "Expected is NOT or NULL"),
        ("(a = 1", "line 1, column 7", "')'"),
        ("a IN ()", "line 1, column 7", "found ')'"),
        ("a IN 1", "line 1, column 6", "Expected is '('"),
        ("EXISTS a", "line 1, column 8", "Expected is '('"),
        ("EXISTS(1)", "line 1, column 8", "Expected is a property"),
        ("a < b < c", "line 1, column 7", "found '<'"),
        ("and = 1", "line 1, column 1", "found 'and'"),
        ("a = 'x", "line 1, column 5", "string is not closed"),
        ("[a = 1", "line 1, column 1", "delimited name is not closed"),
        ('"a = 1', "line 1, column 1", "quoted name is not closed"),
        ("[] = 1", "line 1, column 1", "closed or empty"),
        ("a = @", "line 1, column 5", "parameter has no name"),
        ("a = @b", "line 1, column 5", "@b has no value. Given are: @c"),
        ("a = 1 ; b", "line 1, column 7", "found ';'"),
        ("_a = 1", "line 1, column 1", "the character '_' is not allowed"),
        ("a-b = 1 $", "line 1, column 9", "brackets, as in [order-id]"),
        ("a & b", "line 1, column 3", "the character '&'"),
        ("other.a = 1", "line 1, column 1", "'other' is not a scope"),
        ("f(a) = 1", "line 1, column 1", "no function f(...)"),
        ("newid(1) = a", "line 1, column 1", "no function newid(...)"),
        ("property() = 1", "line 1, column 1", "no function property()"),
        ("a = 9223372036854775808", "line 1, column 5", "64 bits"),
        ("a = 1E999", "line 1, column 5", "too large for a double"),
        ("SET a = 1", "line 1, column 5", "found 'a'"),
    ],
)
def test_refusal_says_where_what_and_what_instead(
    text: str, where: str, problem: str
) -> None:
    with pytest.raises(ArgumentError) as refusal:
        sql_filter(text, {"c": 1})
    assert where in refusal.value.text
    assert problem in refusal.value.text


@pytest.mark.parametrize("text", ["", "  \n"])
def test_empty_filter_is_refused(text: str) -> None:
    with pytest.raises(ArgumentError, match="empty"):
        sql_filter(text)


@pytest.mark.parametrize(
    ("text", "may_fail"),
    [
        ("a = 1 AND b LIKE 'x%' OR c IN (1, 2) AND NOT EXISTS(d)", False),
        ("sys.Label = 'x' AND newid() IS NOT NULL", False),
        ("a = -1", False),
        ("a = -b", True),
        ("a = +b", True),
        ("a = b + 1", True),
        ("a LIKE b", True),
        ("NOT (a IN (1, b * 2))", True),
    ],
)
def test_what_may_fail_is_known_beforehand(text: str, may_fail: bool) -> None:
    assert sql_filter(text).predicate.may_fail() is may_fail
