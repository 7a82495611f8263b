"""Sets of sequence numbers, kept as ranges.

The numbers of a batch must be small in Spark's log. Messages that were received
together mostly have neighbouring numbers.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise


class NumberRanges:
    """A set of numbers, in rising order."""

    __slots__ = ("_firsts", "_lasts")

    def __init__(self, ranges: Iterable[Sequence[int]] = ()) -> None:
        """First and last number of each, which may not overlap. Raises ValueError."""
        pairs = sorted((int(first), int(last)) for first, last in ranges)
        if any(first > last for first, last in pairs) or any(
            before[1] >= after[0] for before, after in pairwise(pairs)
        ):
            raise ValueError("ranges of sequence numbers overlap")
        self._firsts = [first for first, _ in pairs]
        self._lasts = [last for _, last in pairs]

    @classmethod
    def of(cls, numbers: Iterable[int]) -> "NumberRanges":
        made = cls()
        for number in sorted(set(numbers)):
            if made._lasts and made._lasts[-1] + 1 == number:
                made._lasts[-1] = number
            else:
                made._firsts.append(number)
                made._lasts.append(number)
        return made

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.pairs())

    def __iter__(self) -> Iterator[int]:
        for first, last in self.pairs():
            yield from range(first, last + 1)

    def __contains__(self, number: int) -> bool:
        return self.next_from(number) == number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NumberRanges) and list(self.pairs()) == list(
            other.pairs()
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"NumberRanges({list(self.pairs())})"

    def pairs(self) -> Iterator[tuple[int, int]]:
        """First and last of each range."""
        return zip(self._firsts, self._lasts, strict=True)

    def next_from(self, number: int) -> int | None:
        """The lowest that is not below this one."""
        at = bisect_right(self._firsts, number) - 1
        if at >= 0 and number <= self._lasts[at]:
            return number
        return self._firsts[at + 1] if at + 1 < len(self._firsts) else None
