"""Lists in pages: `$skip`, `$top`, and the only supported `$filter`.

$filter=startswith(path,'orders') eq true
"""

import re
from collections.abc import Sequence
from typing import Final, Generic, TypeVar
from urllib.parse import quote

from twinbus.errors import ArgumentError
from twinbus.limits import ENTITIES_PER_PAGE

T = TypeVar("T")

_DIGITS: Final = 9
_FILTER: Final = re.compile(
    r"\s*startswith\s*\(\s*path\s*,\s*'((?:[^']|'')*)'\s*\)\s*(?:eq\s+true\s*)?",
    re.IGNORECASE,
)


class Page(Generic[T]):
    """One page of a list."""

    def __init__(self, items: Sequence[T], query: dict[str, str]) -> None:
        """Raises ArgumentError for an invalid query."""
        self._skip = _number(query, "$skip", 0)
        self._top = _number(query, "$top", ENTITIES_PER_PAGE)
        count = min(self._top, ENTITIES_PER_PAGE)
        self.items = items[self._skip : self._skip + count]
        self._filter = query.get("$filter", "")
        self._has_next = bool(self.items) and self._skip + count < len(items)

    @property
    def next_query(self) -> str | None:
        """The query for the next page; None if there is none."""
        if not self._has_next:
            return None
        query = f"$skip={self._skip + len(self.items)}&$top={self._top}&"
        return query + (f"$filter={quote(self._filter)}&" if self._filter else "")


def prefix_of(query: dict[str, str]) -> str:
    """The prefix that paths must have, in lower case. Raises ArgumentError."""
    text = query.get("$filter", "")
    if not text.strip():
        return ""
    match = _FILTER.fullmatch(text)
    if match is None:
        raise ArgumentError.about(
            "$filter", value=text, expected="startswith(path,'...') eq true"
        )
    return match[1].replace("''", "'").lower()


def _number(query: dict[str, str], name: str, default: int) -> int:
    text = query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit()) or len(text) > _DIGITS:
        raise ArgumentError.about(name, value=text, expected="a whole number from 0")
    return int(text)
