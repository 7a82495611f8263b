"""What is wrong with a line that was typed: the flag, the value, and whose help to ask.

typer finds what is wrong and says it in its own words. Where these leave out the value,
it is in the error of the library that has checked it.
"""

import re
from typing import Final

import typer

from twinbus.cli.failure import PROGRAM

_CHECKED: Final = re.compile(r"Invalid value for (.+?): Input should be (.+)")
_UNREADABLE: Final = ", unable to parse"
_ENDS: Final = (".", "?", "!")


def usage_text(error: typer.TyperException) -> str:
    """What is wrong, and the command whose help shows what is right."""
    text = _with_value(error.format_message(), error.__cause__)
    if not text.endswith(_ENDS):
        text += "."
    context = getattr(error, "ctx", None)
    command = PROGRAM if context is None else context.command_path
    return f"{text} Try '{command} --help'."


def _with_value(text: str, cause: object) -> str:
    found = _CHECKED.fullmatch(text)
    told = getattr(cause, "errors", None)
    if found is None or told is None:
        return text
    expected = found[2].partition(_UNREADABLE)[0]
    value = told()[0]["input"]
    return f"{found[1]} is '{value}'; it must be {expected}"
