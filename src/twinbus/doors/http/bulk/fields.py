"""Reads the JSON of a request, and checks the names, types and bounds of its fields.

Errors name the field and say what it must be.
"""

from collections.abc import Mapping
from typing import Any, Final

from twinbus.encoding.json_reading import read_object
from twinbus.errors import ArgumentError, ArgumentOutOfRange

_SHOWN: Final = 60


class Fields:
    """An object of a request."""

    def __init__(self, content: Mapping[str, Any], where: str = "") -> None:
        self._content = content
        self._where = where

    def _name(self, name: str) -> str:
        return f"{self._where}.{name}" if self._where else name

    def only(self, *names: str) -> None:
        """Raises ArgumentError if the object has other fields."""
        for name in self._content:
            if name not in names:
                known = ", ".join(names)
                raise ArgumentError(
                    f"'{self._name(name)[:_SHOWN]}' is not a field of this request; "
                    f"there are {known}."
                )

    def has(self, name: str) -> bool:
        return self._content.get(name) is not None

    def text(self, name: str, max_characters: int) -> str:
        value = self._content.get(name)
        if not isinstance(value, str) or not value or not value.isprintable():
            raise ArgumentError(
                f"'{self._name(name)}' must be a text of printable characters."
            )
        return self._bounded(name, value, max_characters)

    def optional_text(self, name: str, max_characters: int) -> str | None:
        return self.text(name, max_characters) if self.has(name) else None

    def prose(self, name: str, max_characters: int) -> str:
        """A text for people, which may have line breaks; empty if it is missing."""
        value = self._content.get(name)
        if value is None:
            return ""
        if not isinstance(value, str) or not _is_sound(value):
            raise ArgumentError(f"'{self._name(name)}' must be a text.")
        return self._bounded(name, value, max_characters)

    def _bounded(self, name: str, value: str, max_characters: int) -> str:
        if len(value) > max_characters:
            raise ArgumentOutOfRange(
                f"'{self._name(name)}' has {len(value)} characters; at most "
                f"{max_characters} are allowed."
            )
        return value

    def number(self, name: str, low: int, high: int, default: int | None = None) -> int:
        if default is not None and not self.has(name):
            return default
        return _number(self._content.get(name), self._name(name), low, high)

    def optional_number(self, name: str, low: int, high: int) -> int | None:
        return self.number(name, low, high) if self.has(name) else None

    def flag(self, name: str) -> bool:
        value = self._content.get(name, False)
        if not isinstance(value, bool):
            raise ArgumentError(f"'{self._name(name)}' must be true or false.")
        return value

    def texts(self, name: str, max_items: int, max_characters: int) -> list[str]:
        found = []
        for item in self._items(name, max_items):
            if (
                not isinstance(item, str)
                or not 0 < len(item) <= max_characters
                or not item.isprintable()
            ):
                raise ArgumentError(
                    f"'{self._name(name)}' must have texts of 1 to {max_characters} "
                    "printable characters."
                )
            found.append(item)
        return found

    def numbers(self, name: str, max_items: int, high: int) -> list[int]:
        place = self._name(name)
        return [_number(item, place, 0, high) for item in self._items(name, max_items)]

    def objects(self, name: str, max_items: int) -> "list[Fields]":
        found = []
        for at, item in enumerate(self._items(name, max_items)):
            if not isinstance(item, dict):
                raise ArgumentError(f"'{self._name(name)}' must have objects.")
            found.append(Fields(item, f"{self._name(name)}[{at}]"))
        return found

    def positions(self, name: str, high: int) -> dict[int, int]:
        """Sequence numbers by fragment index."""
        value = self._content.get(name, {})
        if not isinstance(value, dict):
            raise ArgumentError(
                f"'{self._name(name)}' must be an object: a sequence number for each "
                "fragment index."
            )
        found = {}
        for index, number in value.items():
            if not index.isascii() or not index.isdigit() or len(index) > 5:
                raise ArgumentError(
                    f"'{self._name(name)}' has {index[:_SHOWN]!r}, which is not the "
                    "index of a fragment."
                )
            found[int(index)] = _number(number, self._name(name), 0, high)
        return found

    def _items(self, name: str, max_items: int) -> list[Any]:
        value = self._content.get(name, [])
        if not isinstance(value, list):
            raise ArgumentError(f"'{self._name(name)}' must be a list.")
        if len(value) > max_items:
            raise ArgumentOutOfRange(
                f"'{self._name(name)}' has {len(value)} items; at most {max_items} "
                "are allowed. Ask in several requests."
            )
        return value


def _is_sound(text: str) -> bool:
    """True if the text has no NUL and no half of a surrogate pair."""
    return "\0" not in text and not any("\ud800" <= sign <= "\udfff" for sign in text)


def _number(value: Any, name: str, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ArgumentError(f"'{name}' must be a whole number.")
    if not low <= value <= high:
        raise ArgumentOutOfRange(f"'{name}' is {value}; it must be {low} to {high}.")
    return value


def read_fields(body: bytes) -> Fields:
    """Parse the body of a request. Raises ArgumentError."""
    return Fields(read_object(body, "The body"))
