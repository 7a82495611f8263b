"""Shares the limits of a batch among entities.

It is unknown how much an entity has before it is asked. So each gets the same share of
what is left; entities that are asked later also get what earlier ones did not use. Then
those that used their whole share are asked again for the rest.
"""

from collections.abc import Iterator, Sequence
from typing import Final

_NO_LIMIT: Final = 1 << 47


class Shares:
    """Which entity to ask next, and for how much: iterate, and report what it had."""

    def __init__(
        self, paths: Sequence[str], messages: int | None, size_bytes: int, *, turn: int
    ) -> None:
        """The order changes with each turn. Without a number of messages, there is no
        limit, whatever the size."""
        at = turn % len(paths)
        self._paths = [*paths[at:], *paths[:at]]
        self._messages = _NO_LIMIT if messages is None else messages
        self._size_bytes = _NO_LIMIT if messages is None else size_bytes
        # The share of the present entity, and the entities that used all of theirs.
        self._asked = (0, 0)
        self._hungry: list[str] = []

    def __iter__(self) -> Iterator[tuple[str, int, int]]:
        yield from self._ask(self._paths)
        hungry, self._hungry = self._hungry, []
        # The last entity was offered all that was left.
        yield from self._ask([path for path in hungry if path != self._paths[-1]])

    def _ask(self, paths: Sequence[str]) -> Iterator[tuple[str, int, int]]:
        for index, path in enumerate(paths):
            if self._messages <= 0 or self._size_bytes <= 0:
                return
            count = len(paths) - index
            self._asked = -(-self._messages // count), -(-self._size_bytes // count)
            yield path, *self._asked

    def spend(self, path: str, messages: int, size_bytes: int) -> None:
        if messages >= self._asked[0] or size_bytes >= self._asked[1]:
            self._hungry.append(path)
        self._messages -= messages
        self._size_bytes -= size_bytes
