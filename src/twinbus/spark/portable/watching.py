"""Finds messages to take: active ones, and orphans of a stream.

A stream that is killed after it deferred messages, and before Spark has written them
into its log, leaves orphans: they are deferred, have its mark, and are in no batch.
They can be anywhere in the entity. So after every start the whole entity is searched
once: some pages with each batch, and the rest when there is nothing else to do.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from twinbus.broker.message import ACTIVE, DEFERRED
from twinbus.spark.portable.delivered import Delivered
from twinbus.spark.portable.namespace import PortableNamespace
from twinbus.spark.portable.peeking import last_number, pages

_PAGES_A_BATCH: Final = 20


@dataclass(frozen=True, slots=True)
class Sighting:
    """A message that was seen."""

    number: int
    size_bytes: int
    session_id: str | None

    @classmethod
    def of(cls, message: Delivered) -> "Sighting":
        return cls(message.number, len(message.raw), message.session_id)


class Lookout:
    """Sees what is active in one entity."""

    def __init__(self, namespace: PortableNamespace, path: str) -> None:
        self._namespace = namespace
        self._path = path
        # Messages before this number are deferred, and do not become active again.
        self._first = 1

    def active(self, through: int | None) -> list[Sighting]:
        """The first active messages, up to a number. Some may be locked by other
        receivers, which a peek does not tell."""
        end = None if through is None else through + 1
        is_any = False
        for page in pages(self._namespace, self._path, self._first, end):
            is_any = True
            found = [Sighting.of(one) for one in page if one.state == ACTIVE]
            if found:
                return found
            if all(message.state == DEFERRED for message in page):
                self._first = page[-1].number + 1
        if not is_any:
            # The entity was made again: start from its begin.
            self._first = 1
        return []


class OrphanSearch:
    """Searches one entity, once."""

    def __init__(
        self, namespace: PortableNamespace, path: str, mark: str, adopts_all: bool
    ) -> None:
        self._namespace = namespace
        self._path = path
        self._mark = mark
        self._adopts_all = adopts_all
        self._pages: Iterator[list[Delivered]] | None = None
        self.is_over = False

    def look(self, limit: int, limit_bytes: int, *, to_the_end: bool) -> list[Sighting]:
        """Some orphans: about so many, by whole pages. All pages are searched if there
        is nothing else to do."""
        found: list[Sighting] = []
        count = size_bytes = 0
        while not self.is_over and len(found) < limit and size_bytes < limit_bytes:
            if count >= _PAGES_A_BATCH and (found or not to_the_end):
                break
            page = next(self._opened(), None)
            if page is None:
                self.is_over = True
                break
            count += 1
            found += [Sighting.of(one) for one in page if self._is_orphan(one)]
            size_bytes = sum(one.size_bytes for one in found)
        return found

    def _opened(self) -> Iterator[list[Delivered]]:
        if self._pages is None:
            last = last_number(self._namespace, self._path)
            end = 0 if last is None else last + 1
            self._pages = pages(self._namespace, self._path, 1, end)
        return self._pages

    def _is_orphan(self, message: Delivered) -> bool:
        if message.state != DEFERRED:
            return False
        return self._adopts_all or message.mark == self._mark
