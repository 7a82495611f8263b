"""Which entities have messages deferred in the backlog queues, and where they lie.

Only bounds and counts are kept, so memory does not grow with an outage. An entity that
has any is parked: what comes for it is deferred behind them, until the last is back.

Pure.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import final


@dataclass(slots=True)
class ParkedSpan:
    """The deferred messages of one entity in one queue."""

    queue: str
    path: str
    first: int
    last: int
    count: int


@final
class Parked:
    """The book of all backlog queues."""

    def __init__(self) -> None:
        # By queue, and entity in lower case.
        self._spans: dict[tuple[str, str], ParkedSpan] = {}

    def note(self, queue: str, path: str, numbers: Sequence[int]) -> None:
        """These messages are deferred."""
        if not numbers:
            return
        self.learn([ParkedSpan(queue, path, min(numbers), max(numbers), len(numbers))])

    def learn(self, spans: Iterable[ParkedSpan]) -> None:
        """What was found; those of one entity and queue are one."""
        for span in spans:
            key = span.queue, span.path.lower()
            known = self._spans.get(key)
            if known is None:
                self._spans[key] = span
                continue
            known.first = min(known.first, span.first)
            known.last = max(known.last, span.last)
            known.count += span.count

    def forget_queue(self, queue: str) -> None:
        self._drop(lambda span: span.queue == queue)

    def forget_entities(self, entities: Collection[str]) -> None:
        """By their names in lower case."""
        self._drop(lambda span: span.path.lower() in entities)

    def _drop(self, is_dropped: Callable[[ParkedSpan], bool]) -> None:
        self._spans = {
            key: span for key, span in self._spans.items() if not is_dropped(span)
        }

    def spans(self) -> list[ParkedSpan]:
        return list(self._spans.values())

    def entities(self) -> dict[str, str]:
        """Their spelling by their name in lower case."""
        return {span.path.lower(): span.path for span in self._spans.values()}

    def counts(self) -> dict[str, int]:
        """Messages by entity."""
        counts: dict[str, int] = {}
        spelled = self.entities()
        for span in self._spans.values():
            path = spelled[span.path.lower()]
            counts[path] = counts.get(path, 0) + span.count
        return dict(sorted(counts.items()))

    def count_in(self, queue: str) -> int:
        return sum(span.count for span in self._spans.values() if span.queue == queue)

    def queues(self) -> set[str]:
        return {span.queue for span in self._spans.values()}

    def bounds(self, entities: Collection[str]) -> dict[str, tuple[int, int]]:
        """The first and the last number of these entities, by queue."""
        found: dict[str, tuple[int, int]] = {}
        for span in self._spans.values():
            if span.path.lower() in entities:
                first, last = found.get(span.queue, (span.first, span.last))
                found[span.queue] = min(first, span.first), max(last, span.last)
        return found
