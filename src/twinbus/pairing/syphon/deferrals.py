"""Which entities have deferred messages in one backlog queue, and where they lie.

Only bounds are kept, so memory does not grow with an outage; the messages are found
by peeking between them. An entity whose deferred messages are on their way back keeps
its new ones behind them: it leaves the book when the last of the old ones is gone.

Pure.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import final

from twinbus.pairing.syphon.ports import BacklogPage, Glimpse


@dataclass(slots=True)
class Span:
    """Where the deferred messages of an entity begin and end, as far as is known."""

    path: str
    first: int
    last: int


@final
class Deferrals:
    """The book of one backlog queue."""

    def __init__(self) -> None:
        self._spans: dict[str, Span] = {}

    def __contains__(self, path: str) -> bool:
        return path.lower() in self._spans

    def __len__(self) -> int:
        return len(self._spans)

    def spans(self) -> list[Span]:
        return list(self._spans.values())

    def note(self, path: str, number: int) -> None:
        """A message of the entity is deferred."""
        span = self._spans.get(path.lower())
        if span is None:
            self._spans[path.lower()] = Span(path, number, number)
        else:
            span.first = min(span.first, number)
            span.last = max(span.last, number)

    def wanted(
        self, page: BacklogPage, paths: Collection[str]
    ) -> dict[str, list[Glimpse]]:
        """Deferred messages on the page that belong to these entities, in order."""
        keys = {path.lower() for path in paths}
        found: dict[str, list[Glimpse]] = {}
        for glimpse in page.glimpses:
            key = glimpse.path.lower()
            span = self._spans.get(key)
            if key in keys and span is not None:
                found.setdefault(span.path, []).append(glimpse)
        return found

    def passed(self, path: str, page: BacklogPage) -> bool:
        """All of the entity on the page is restored. Returns whether that was all."""
        span = self._spans[path.lower()]
        if page.next_number is None or page.next_number > span.last:
            del self._spans[path.lower()]
            return True
        span.first = max(span.first, page.next_number)
        return False
