"""Random predicates, written as SQL, give the same as a naive evaluator.

A predicate is a nested tuple. It is written with brackets around everything, parsed and
evaluated by the engine, and evaluated by the few lines here, which share no code with
the engine.
"""

import math
import operator
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st
from unit.rules.plain_view import PlainView

from twinbus.rules.filter_error import FilterError
from twinbus.rules.sql.rule_checks import sql_filter

Tree = tuple[object, ...]

NAMES = ("a", "b", "c", "d")
SPECIAL = (2**63 - 1, -(2**63) + 1, 2**62)

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from(SPECIAL),
    st.sampled_from((0.0, 0.5, -1.5, 3.0)),
    st.text(alphabet="xy", max_size=2),
)
MESSAGES = st.dictionaries(st.sampled_from(NAMES), SCALARS)

OPERANDS = st.one_of(
    st.tuples(st.just("constant"), SCALARS),
    st.tuples(st.just("property"), st.sampled_from(NAMES)),
)
NUMBERS = st.recursive(
    OPERANDS,
    lambda inner: st.one_of(
        st.tuples(st.just("arithmetic"), st.sampled_from("+-*/%"), inner, inner),
        st.tuples(st.just("negative"), inner),
    ),
    max_leaves=4,
)
COMPARATORS = ("=", "<>", "<", "<=", ">", ">=")
SIMPLE = st.one_of(
    st.tuples(st.just("compare"), st.sampled_from(COMPARATORS), NUMBERS, NUMBERS),
    st.tuples(st.just("is null"), NUMBERS),
    st.tuples(st.just("exists"), st.sampled_from(NAMES)),
    st.tuples(st.just("in"), NUMBERS, st.lists(NUMBERS, min_size=1, max_size=3)),
    OPERANDS,
)
PREDICATES = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        st.tuples(st.just("and"), inner, inner),
        st.tuples(st.just("or"), inner, inner),
        st.tuples(st.just("not"), inner),
    ),
    max_leaves=6,
)


class Failed(Exception):
    """The naive evaluator's refusal."""


def written(tree: Tree) -> str:
    match tree:
        case ("constant", value):
            return literal(value)
        case ("property", str(name)):
            return name.upper()
        case ("arithmetic" | "compare", str(symbol), tuple(left), tuple(right)):
            return f"({written(left)} {symbol} {written(right)})"
        case ("negative", tuple(inner)):
            return f"(- {written(inner)})"
        case ("is null", tuple(inner)):
            return f"({written(inner)} is null)"
        case ("exists", str(name)):
            return f"exists({name})"
        case ("in", tuple(inner), list(candidates)):
            return f"({written(inner)} in ({', '.join(map(written, candidates))}))"
        case ("not", tuple(inner)):
            return f"(not {written(inner)})"
        case (str(word), tuple(left), tuple(right)):
            return f"({written(left)} {word} {written(right)})"
    raise AssertionError(tree)


def literal(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return f"'{value}'"
    return str(value).upper()


def meaning(tree: Tree, message: dict[str, object]) -> object:
    match tree:
        case ("constant", value):
            return value
        case ("property", str(name)):
            return message.get(name)
        case ("arithmetic", str(symbol), tuple(left), tuple(right)):
            return arithmetic(symbol, meaning(left, message), meaning(right, message))
        case ("negative", tuple(inner)):
            value = meaning(inner, message)
            return whole(-value) if is_number(value) else None  # type: ignore[operator]
        case ("compare", str(symbol), tuple(left), tuple(right)):
            return comparison(symbol, meaning(left, message), meaning(right, message))
        case ("is null", tuple(inner)):
            return meaning(inner, message) is None
        case ("exists", str(name)):
            return name in message
        case ("in", tuple(inner), list(candidates)):
            return contained(meaning(inner, message), candidates, message)
        case ("not", tuple(inner)):
            value = truth(meaning(inner, message))
            return None if value is None else not value
        case (str(word), tuple(left), tuple(right)):
            return joined(word == "and", left, right, message)
    raise AssertionError(tree)


def truth(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def joined(
    is_and: bool, left: Tree, right: Tree, message: dict[str, object]
) -> bool | None:
    """Three-valued logic by its tables: the certain value, then unknown, then rest."""
    certain = not is_and
    first = truth(meaning(left, message))
    if first is certain:
        return certain
    second = truth(meaning(right, message))
    if second is certain:
        return certain
    return None if None in (first, second) else is_and


def contained(
    value: object, candidates: list[Tree], message: dict[str, object]
) -> bool | None:
    if value is None:
        return None
    for candidate in candidates:
        if comparison("=", value, meaning(candidate, message)) is True:
            return True
    return False


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


OPERATORS: dict[str, Callable[[object, object], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,  # type: ignore[dict-item]
    "<=": operator.le,  # type: ignore[dict-item]
    ">": operator.gt,  # type: ignore[dict-item]
    ">=": operator.ge,  # type: ignore[dict-item]
}


def comparison(symbol: str, left: object, right: object) -> bool | None:
    if is_number(left) and is_number(right):
        if isinstance(left, float) or isinstance(right, float):
            left, right = float(left), float(right)  # type: ignore[arg-type]
    elif type(left) is not type(right) or left is None:
        return None
    elif isinstance(left, bool) and symbol not in ("=", "<>"):
        # Booleans that are equal are so in every order.
        return None if left != right else OPERATORS[symbol](left, right)
    return OPERATORS[symbol](left, right)


def arithmetic(symbol: str, left: object, right: object) -> object:
    if isinstance(left, str) and isinstance(right, str) and symbol == "+":
        return left + right
    if not is_number(left) or not is_number(right):
        return None
    if isinstance(left, int) and isinstance(right, int):
        return whole(integer(symbol, left, right))
    return double(symbol, float(left), float(right))  # type: ignore[arg-type]


def integer(symbol: str, left: int, right: int) -> int:
    if symbol in "/%" and right == 0:
        raise Failed
    if symbol == "/":
        exact = abs(left) // abs(right)
        return exact if (left >= 0) == (right > 0) else -exact
    if symbol == "%":
        return int(math.copysign(1, left)) * (abs(left) % abs(right))
    return {"+": left + right, "-": left - right, "*": left * right}[symbol]


def double(symbol: str, left: float, right: float) -> float:
    if symbol == "%":
        is_defined = right != 0 and math.isfinite(left)
        return math.fmod(left, right) if is_defined else math.nan
    if symbol == "/" and right == 0:
        if left == 0 or math.isnan(left):
            return math.nan
        return math.inf * math.copysign(1, left) * math.copysign(1, right)
    if symbol == "/":
        return left / right
    return {"+": left + right, "-": left - right, "*": left * right}[symbol]


def whole(value: object) -> object:
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise Failed
    return value


@settings(max_examples=400)
@given(tree=PREDICATES, message=MESSAGES)
def test_predicates_mean_what_the_naive_evaluator_says(
    tree: Tree, message: dict[str, object]
) -> None:
    predicate = sql_filter(written(tree)).predicate
    view = PlainView(message)
    try:
        expected = meaning(tree, message)
    except Failed:
        assert predicate.may_fail()
        try:
            found = predicate.evaluate(view)
        except FilterError:
            return
        raise AssertionError(f"{found} and no failure") from None
    found = predicate.evaluate(view)
    assert found == expected or (found != found and expected != expected)
    assert type(found) is type(expected)
