"""The kinds of values that settings have: how each is read and what it allows.

A value comes from a TOML file (with a type), from a variable or from a flag (both as
text). `ValueKind.read` takes any of them and returns the typed value, or raises a
ValueError whose text says what is wrong with it. It does not know where the value was
written: whoever calls it puts the place in front.
"""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeVar

from twinbus.durations import duration_ms, readable_duration

Value = TypeVar("Value")

_BETWEEN_URLS: Final = re.compile(r"[,\s]+(?=[A-Za-z][A-Za-z0-9+.-]*:)")

_SWITCH: Final = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueKind(Generic[Value]):
    """One kind of value."""

    read: Callable[[object], Value]
    # What may be written, as Markdown for the reference page; empty: any text.
    allowed: str = ""


def whole_number(lowest: int, highest: int) -> ValueKind[int]:
    """A whole number in a range that includes both ends."""

    def read(value: object) -> int:
        try:
            # As a text, because int() would take TOML's true and 1.5.
            number = int(str(value))
        except ValueError:
            raise ValueError(f"{value!r} is not a whole number") from None
        if not lowest <= number <= highest:
            raise ValueError(f"{number} is not from {lowest} to {highest}")
        return number

    return ValueKind(read=read, allowed=f"{lowest} to {highest}")


def text(*, may_be_empty: bool = True) -> ValueKind[str]:
    """Any text."""

    def read(value: object) -> str:
        if not isinstance(value, str | os.PathLike):
            raise ValueError(f"{value!r} is not a text")
        if not may_be_empty and not str(value):
            raise ValueError("is empty")
        return str(value)

    return ValueKind(read=read)


def urls() -> ValueKind[tuple[str, ...]]:
    """Several URLs: a list, or a text with commas or blanks between them."""
    read_text = text().read

    def read(value: object) -> tuple[str, ...]:
        if isinstance(value, list | tuple):
            listed = [text(may_be_empty=False).read(item) for item in value]
            return tuple(item.strip() for item in listed)
        # A blank or comma within a path is not followed by the scheme of another URL.
        parts = _BETWEEN_URLS.split(read_text(value).strip(", \t\n"))
        return tuple(part for part in parts if part)

    return ValueKind(read=read, allowed="one or several")


def folder() -> ValueKind[Path]:
    """The path of a folder."""
    read_text = text(may_be_empty=False).read
    return ValueKind(read=lambda value: Path(read_text(value)))


def one_of(words: Sequence[str]) -> ValueKind[str]:
    """One of some words, in upper or lower case."""
    read_text = text().read

    def read(value: object) -> str:
        word = read_text(value)
        if word.lower() not in words:
            raise ValueError(f"{word!r} is none of {', '.join(words)}")
        return word

    return ValueKind(read=read, allowed=", ".join(f"`{word}`" for word in words))


def duration(shortest_ms: int, longest_ms: int) -> ValueKind[str]:
    """A duration that is not unlimited, kept as it was written."""
    shortest, longest = readable_duration(shortest_ms), readable_duration(longest_ms)
    read_text = text().read

    def read(value: object) -> str:
        written = read_text(value)
        if not shortest_ms <= duration_ms(written) <= longest_ms:
            raise ValueError(f"{written!r} is not from {shortest} to {longest}")
        return written

    return ValueKind(read=read, allowed=f"`{shortest}` to `{longest}`")


def switch() -> ValueKind[bool]:
    """True or false."""

    def read(value: object) -> bool:
        word = str(value).lower()
        if word not in _SWITCH:
            raise ValueError(f"{value!r} is neither true nor false")
        return _SWITCH[word]

    return ValueKind(read=read, allowed="`true`, `false`")
