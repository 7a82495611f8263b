"""Moves a catalog to another place: from a file to PostgreSQL, and back.

Two databases cannot change together, so each has a mark:

    1. the target gets a copy, in one transaction, marked as arriving
    2. the copy is read again, and compared
    3. the source is marked as moved          (from here on the target is the catalog)
    4. the target is marked as arrived

Neither a catalog that was moved nor one that is arriving can be opened. So there is one
valid catalog at any moment, except between 3 and 4: then the same move, run again, does
what is left. A move that ended before 3 has changed nothing, and can be run again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from twinbus.store.base import StoreError
from twinbus.store.catalog import Catalog, CatalogMoved, EntityRecord, Unfinished


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogMarks:
    """Whether a catalog is the valid one; both are empty if it is."""

    # Where it is now.
    moved_to: str = ""
    # Where it comes from, while it is being moved to here.
    moved_from: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogContent:
    """All that a catalog holds, but for brokers, and for what was removed."""

    # The same wherever it is moved to.
    identity: bytes
    version: int
    entities: Sequence[EntityRecord]
    unfinished: Sequence[Unfinished]
    cluster_key: bytes = field(repr=False)
    root_key: str = field(repr=False)

    def is_empty(self) -> bool:
        """No bus has used it: each records its namespace."""
        return not self.entities and not self.unfinished


class MovableCatalog(Catalog, Protocol):
    """A catalog that is kept."""

    def root_key(self, proposed: str) -> str:
        """The key of the root rule, the same for all who use this catalog. The one
        that is proposed, if there is none yet. The catalog exists, and need not be
        open; this does not wait for the event loop. Raises StoreError."""
        ...

    async def open_marked(self) -> CatalogMarks:
        """Open it whatever its marks say; an empty one is made if there is none.
        Raises StoreUnreadable."""
        ...

    async def content(self) -> CatalogContent: ...

    async def replace_content(self, content: CatalogContent, moved_from: str) -> None:
        """Hold this and nothing else, and be marked as arriving: all of it or
        nothing."""
        ...

    async def mark_moved(self, moved_to: str) -> None:
        """From now on it cannot be opened, nor written to."""
        ...

    async def mark_arrived(self) -> None:
        """From now on it can be opened."""
        ...


def check_marks(location: str, marks: CatalogMarks) -> None:
    """Raises CatalogMoved."""
    if marks.moved_to:
        raise CatalogMoved(
            f"The catalog {location} was moved to {marks.moved_to}: name that with "
            "--catalog."
        )
    if marks.moved_from:
        raise CatalogMoved(
            f"The move of the catalog {marks.moved_from} to {location} has not ended: "
            "run 'twinbus catalog move' again, as before."
        )


async def move_catalog(
    source: MovableCatalog, target: MovableCatalog, root_key: str
) -> CatalogContent:
    """Nobody may use either of them. `root_key` is that of the source, if the source
    does not have it itself. Returns what was moved. Raises StoreError."""
    if source.location == target.location:
        raise StoreError(f"The catalog is in {target.location} already.")
    if not source.exists():
        raise StoreError(f"There is no catalog {source.location}.")
    marks = await source.open_marked()
    try:
        content = await source.content()
        if marks.moved_to == target.location and target.exists():
            await _finish(source, target, content)
            return content
        check_marks(source.location, marks)
        content = replace(content, root_key=content.root_key or root_key)
        await _copy(source, target, content)
    finally:
        await source.close()
        await target.close()
    return content


async def _copy(
    source: MovableCatalog, target: MovableCatalog, content: CatalogContent
) -> None:
    _check_free(target, await target.open_marked(), await target.content(), content)
    await target.replace_content(content, source.location)
    if await target.content() != content:
        raise StoreError(
            f"What was copied to {target.location} is not what {source.location} has. "
            "The catalog was not moved."
        )
    await source.mark_moved(target.location)
    await target.mark_arrived()


async def _finish(
    source: MovableCatalog, target: MovableCatalog, content: CatalogContent
) -> None:
    """The source was marked, by this move or by an earlier one."""
    marks = await target.open_marked()
    found = await target.content()
    is_ours = found.identity == content.identity and found.entities == content.entities
    if marks.moved_from != source.location or not is_ours:
        check_marks(source.location, CatalogMarks(moved_to=target.location))
    await target.mark_arrived()


def _check_free(
    target: MovableCatalog,
    marks: CatalogMarks,
    found: CatalogContent,
    content: CatalogContent,
) -> None:
    """Raises StoreError if the target holds what the move would destroy."""
    is_left = bool(marks.moved_to or marks.moved_from)
    if found.is_empty() or (is_left and found.identity == content.identity):
        return
    raise StoreError(
        f"{target.location} holds a catalog already, with {len(found.entities)} "
        "entries. Nothing was changed. Name another place."
    )
