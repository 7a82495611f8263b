"""LIKE, in bounded time for every pattern.

`%` is any run of characters, `_` any single one; the escape character makes them
literal. A pattern consists of segments between runs: the first must be at the start of
the text, the last at its end, and each of the others is matched at its first
occurrence, which is never worse than a later one. A segment with `_` has several
pieces: each is searched at its position, and if it is found later, the start moves on.
All steps are counted (see `text_work.py`).
"""

from typing import Final, final

from twinbus.limits import LIKE_PATTERN_CHARACTERS
from twinbus.rules.filter_error import FilterError
from twinbus.rules.text_work import TextWork

_ANY_RUN: Final = "%"

_STEPS_PER_PIECE: Final = 8
"""Comparing a piece takes about so many times as long as searching a hundred
characters, which is one step."""

_PIECE_SHIFT: Final = 3
_LONG_PIECE: Final = 100


def _scan_shift(length: int) -> int:
    """How many characters one step covers, as a power of two, in a search for a piece
    of this length. Measured with texts that make Python's search slow."""
    if length == 1:
        return 10
    if length < 4:
        return 6
    return 7 if length < _LONG_PIECE else 4


@final
class Segment:
    """The part between two runs: pieces of text, separated by single characters."""

    def __init__(self) -> None:
        self.length: int = 0
        # The position of each piece, and the pieces.
        self._offsets: list[int] = []
        self._pieces: list[str] = []

    def end(self, pieces: list[str]) -> None:
        """Set the pieces; there is a single character between any two."""
        for piece in pieces:
            if piece:
                self._offsets.append(self.length)
                self._pieces.append(piece)
            self.length += len(piece) + 1
        self.length -= 1

    def is_at(self, text: str, at: int, work: TextWork) -> bool:
        """Whether it matches here; the text is long enough. Raises FilterError."""
        count = 0
        for index, piece in enumerate(self._pieces):
            count += 1
            if not text.startswith(piece, at + self._offsets[index]):
                work.spend(count * _STEPS_PER_PIECE)
                return False
        work.spend(count * _STEPS_PER_PIECE)
        return True

    def find(self, text: str, at: int, end: int, work: TextWork) -> int:
        """Its first match between `at` and `end`, or -1. Raises FilterError.

        A piece that is not at its position moves the start to its next occurrence. It
        matches when all pieces agree on a start.
        """
        latest = end - self.length
        if latest < at:
            return -1
        start, index, agreed_count = at, 0, 0
        while agreed_count < len(self._pieces):
            piece, offset = self._pieces[index], self._offsets[index]
            wanted = start + offset
            position = text.find(piece, wanted, latest + offset + len(piece))
            passed = (position if position >= 0 else end) - wanted
            work.spend(
                _STEPS_PER_PIECE
                + (len(piece) >> _PIECE_SHIFT)
                + (passed >> _scan_shift(len(piece)))
            )
            if position < 0:
                return -1
            if passed == 0:
                agreed_count += 1
            else:
                start, agreed_count = position - offset, 1
            index = (index + 1) % len(self._pieces)
        return start


@final
class LikePattern:
    """A parsed pattern. Raises FilterError if it is too long."""

    def __init__(self, pattern: str, escape: str = "") -> None:
        if len(pattern) > LIKE_PATTERN_CHARACTERS:
            raise FilterError(
                f"A LIKE pattern has {len(pattern)} characters; at most "
                f"{LIKE_PATTERN_CHARACTERS} are allowed."
            )
        # The segments between runs; a pattern without runs has one.
        self._segments: list[Segment] = []
        self._take_apart(pattern, escape)

    def matches(self, text: str, work: TextWork) -> bool:
        """Raises FilterError if the rules have used too many steps for this message."""
        segments = self._segments
        first = segments[0]
        if len(segments) == 1:
            return len(text) == first.length and first.is_at(text, 0, work)
        last = segments[-1]
        end = len(text) - last.length
        if end < first.length or not first.is_at(text, 0, work):
            return False
        if not last.is_at(text, end, work):
            return False
        at = first.length
        for index in range(1, len(segments) - 1):
            segment = segments[index]
            found = segment.find(text, at, end, work)
            if found < 0:
                return False
            at = found + segment.length
        return True

    def _take_apart(self, pattern: str, escape: str) -> None:
        # Pieces of the current segment; the last one is open.
        pieces: list[str] = [""]
        escaped = False
        for character in pattern:
            if escaped or (character != escape and character not in "%_"):
                pieces[-1] += character
                escaped = False
            elif character == escape:
                escaped = True
            elif character == _ANY_RUN:
                self._add(pieces)
                pieces = [""]
            else:
                pieces.append("")
        if escaped:
            # An escape character at the end stands for itself.
            pieces[-1] += escape
        self._add(pieces)

    def _add(self, pieces: list[str]) -> None:
        segment = Segment()
        segment.end(pieces)
        self._segments.append(segment)
