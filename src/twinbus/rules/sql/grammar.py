"""The parser for `rules.lark`, and its errors in plain words.

LALR(1) with its own stack: neither parsing nor building expressions recurses, and both
take time in proportion to the text. This module imports the parser library, so it is
imported when the first text is parsed.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final, cast

from lark import Lark, Token
from lark.exceptions import UnexpectedCharacters, UnexpectedToken, VisitError

from twinbus.errors import ArgumentError
from twinbus.rules.sql.nodes import NodeBuilder
from twinbus.rules.sql.text_error import text_error
from twinbus.rules.typed_value import TypedValue

_END: Final = "$END"

_NAMES: Final = {"IDENTIFIER", "DELIMITED", "QUOTED", "SET", "REMOVE"}
_CONSTANTS: Final = {"PARAMETER", "INTEGER", "DOUBLE", "STRING", "_TRUE", "_FALSE"}

# Terminals that are named together if all of them could follow.
_GROUPS: Final = (
    (
        {*_NAMES, *_CONSTANTS, "_NULL", "_EXISTS", "ADDITIVE", "LPAR"},
        "a property, a constant, '('",
    ),
    (_NAMES, "a property"),
    ({"EQUAL", "LESSTHAN", "MORETHAN"}, "a comparison"),
    ({"ADDITIVE", "MULTIPLICATIVE"}, "an arithmetic operator"),
)
_WORDS: Final = {
    "_AND": "AND",
    "_OR": "OR",
    "_NOT": "NOT",
    "_IN": "IN",
    "_IS": "IS",
    "_LIKE": "LIKE",
    "_ESCAPE": "ESCAPE",
    "_NULL": "NULL",
    "SET": "SET",
    "REMOVE": "REMOVE",
    "LPAR": "'('",
    "RPAR": "')'",
    "COMMA": "','",
    "SEMICOLON": "';'",
    "DOT": "'.'",
    "EQUAL": "'='",
    _END: "the end of the text",
}
_UNCLOSED: Final = {
    "'": ("the string is not closed", "It ends with a single quotation mark."),
    '"': ("the quoted name is not closed or empty", "It ends with '\"'."),
    "[": ("the delimited name is not closed or empty", "It ends with ']'."),
    "@": ("a parameter has no name", "Write for example @region."),
}


@cache
def _parser() -> Lark:
    grammar = Path(__file__).with_name("rules.lark").read_text("utf-8")
    return Lark(
        grammar,
        parser="lalr",
        # Keywords are reserved everywhere, not only where one is expected.
        lexer="basic",
        start=["filter", "action"],
        maybe_placeholders=True,
    )


def parse(start: str, text: str, parameters: Mapping[str, TypedValue]) -> object:
    """The expression or statements for the text. Raises ArgumentError."""
    try:
        tree = _parser().parse(text, start=start)
        return NodeBuilder(text, parameters).transform(tree)
    except UnexpectedCharacters as error:
        raise _unexpected_character(text, error) from None
    except UnexpectedToken as error:
        raise _unexpected_token(text, error) from None
    except VisitError as error:
        if isinstance(error.orig_exc, ArgumentError):
            raise error.orig_exc from None
        raise


def _unexpected_character(text: str, error: UnexpectedCharacters) -> ArgumentError:
    at = cast("int", error.pos_in_stream)
    character = text[at]
    unknown = (
        f"the character {character!r} is not allowed here",
        "Put names with special characters in brackets, as in [order-id].",
    )
    problem, hint = _UNCLOSED.get(character, unknown)
    return text_error(text, at, problem, hint)


def _unexpected_token(text: str, error: UnexpectedToken) -> ArgumentError:
    token: Token = error.token
    expected = f"Expected is {_expectation(set(error.accepts))}."
    if token.type == _END:
        return text_error(text, len(text), "the text ends too early", expected)
    problem = f"found {str(token)[:_SHOWN]!r}"
    return text_error(text, token.start_pos or 0, problem, expected)


_SHOWN: Final = 30


def _expectation(terminals: set[str]) -> str:
    """The terminals that could follow, in words."""
    words: list[str] = []
    for group, word in _GROUPS:
        if group <= terminals:
            words.append(word)
            terminals = terminals - group
    words += [word for name, word in _WORDS.items() if name in terminals]
    return " or ".join((", ".join(words[:-1]), words[-1])) if words[1:] else words[0]
