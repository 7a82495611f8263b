"""LIKE, in a time that no pattern can make explode.

`%` is any run of characters, `_` any single one, and the escape character takes their
meaning from them. A pattern without `_` is a row of texts that are found one after the
other. With `_` all positions that the pattern could be at are the bits of one number,
which each character of the text moves on at once: nothing is ever tried twice.
"""

from typing import Final, final

from twinbus.limits import LIKE_PATTERN_CHARACTERS
from twinbus.rules.filter_error import FilterError

_ANY_RUN: Final = "%"
_ANY_ONE: Final = "_"


@final
class LikePattern:
    """A pattern, taken apart once. Raises FilterError if it is too long."""

    def __init__(self, pattern: str, escape: str = "") -> None:
        if len(pattern) > LIKE_PATTERN_CHARACTERS:
            raise FilterError(
                f"A LIKE pattern has {len(pattern)} characters; at most "
                f"{LIKE_PATTERN_CHARACTERS} are allowed."
            )
        # Texts between runs; a pattern without runs has one.
        self._texts: list[str] = [""]
        # Whether a character of all texts in a row is `_`.
        self._is_any: list[bool] = []
        self._take_apart(pattern, escape)
        self._has_any: bool = True in self._is_any
        # For patterns with `_`: the positions at which a character steps forward,
        # where any one does, and where the pattern may stay (after a run's start).
        self._steps: dict[str, int] = {}
        self._any_steps: int = 0
        self._stays: int = 0
        if self._has_any:
            self._make_steps()

    def matches(self, text: str) -> bool:
        if self._has_any:
            return self._matches_by_steps(text)
        return self._matches_by_texts(text)

    def _take_apart(self, pattern: str, escape: str) -> None:
        escaped = False
        for character in pattern:
            if escaped or (character != escape and character not in "%_"):
                self._append(character, False)
                escaped = False
            elif character == escape:
                escaped = True
            elif character == _ANY_RUN:
                self._texts.append("")
            else:
                self._append(character, True)
        if escaped:
            # An escape with nothing to escape stands for itself.
            self._append(escape, False)

    def _append(self, character: str, is_any: bool) -> None:
        self._texts[-1] += character
        self._is_any.append(is_any)

    def _matches_by_texts(self, text: str) -> bool:
        texts = self._texts
        if len(texts) == 1:
            return text == texts[0]
        first = texts[0]
        last = texts[-1]
        end = len(text) - len(last)
        if end < len(first) or not text.startswith(first) or not text.endswith(last):
            return False
        at = len(first)
        for index in range(1, len(texts) - 1):
            found = text.find(texts[index], at, end)
            if found < 0:
                return False
            at = found + len(texts[index])
        return True

    def _make_steps(self) -> None:
        position = 0
        for index, text in enumerate(self._texts):
            if index > 0:
                self._stays |= 1 << position
            for character in text:
                if self._is_any[position]:
                    self._any_steps |= 1 << position
                else:
                    known = self._steps.get(character, 0)
                    self._steps[character] = known | 1 << position
                position += 1

    def _matches_by_steps(self, text: str) -> bool:
        positions = 1
        for character in text:
            steps = self._steps.get(character, 0) | self._any_steps
            positions = (positions & steps) << 1 | positions & self._stays
            if positions == 0:
                return False
        return positions >> len(self._is_any) == 1
