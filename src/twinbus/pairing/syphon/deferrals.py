"""Which entities have deferred messages in one backlog queue, and in which range.

Only the first and the last sequence number are kept, so memory does not grow with an
outage; the messages are found by peeking in that range. While deferred messages of an
entity are being restored, its new messages are deferred behind them. The entity is
removed here when its last deferred message is restored.

Pure.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import final

from twinbus.pairing.syphon.ports import BacklogPage, Glimpse


@dataclass(slots=True)
class Span:
    """The range of an entity's deferred messages, as far as we know."""

    path: str
    first: int
    last: int


@final
class Deferrals:
    """The deferred messages of one backlog queue."""

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
        """The deferred messages of these entities on the page, in order."""
        keys = {path.lower() for path in paths}
        found: dict[str, list[Glimpse]] = {}
        for glimpse in page.glimpses:
            key = glimpse.path.lower()
            span = self._spans.get(key)
            if key in keys and span is not None:
                found.setdefault(span.path, []).append(glimpse)
        return found

    def passed(self, path: str, page: BacklogPage) -> bool:
        """The entity's messages on the page are restored. Returns whether these were
        the last."""
        span = self._spans[path.lower()]
        if page.next_number is None or page.next_number > span.last:
            del self._spans[path.lower()]
            return True
        span.first = max(span.first, page.next_number)
        return False
