"""The error for an invalid SQL text: where, what is wrong, what is expected."""

from typing import Final

from twinbus.errors import ArgumentError

_SHOWN_CHARACTERS: Final = 30
"""How much of the text is shown: enough to find the place in it."""


def text_error(text: str, at: int, problem: str, hint: str) -> ArgumentError:
    """An error at position `at`; lines and columns count from 1."""
    line = text.count("\n", 0, at) + 1
    column = at - (text.rfind("\n", 0, at) + 1) + 1
    return ArgumentError(
        f"The SQL text is not valid at line {line}, column {column}"
        f"{_shown(text, at)}: {problem}. {hint}"
    )


def _shown(text: str, at: int) -> str:
    rest = text[at : at + _SHOWN_CHARACTERS]
    if not rest:
        return ""
    more = "..." if len(text) > at + _SHOWN_CHARACTERS else ""
    return f" ({rest + more!r})"
