"""Fragments that belong to no entity of this process, and what to do with them.

Only fragments of changes that the catalog notes as unfinished are dropped
(`store/catalog.py`). Fragments of namespaces that the catalog has, and that are not
served, are kept. If there are others, the bus does not start, because they may be
needed: the catalog may be lost, old, or from another folder.

An intent alone is no proof that a creation is unfinished: a restored catalog may be
from a time when the creation was under way. But an entity can be used only after the
catalog has it, so a fragment that was used belongs to a finished creation.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from twinbus.broker.changes import FragmentRecord, StoredEntity
from twinbus.broker.fragment_table import FragmentTable
from twinbus.store.base import CatalogIncomplete
from twinbus.store.catalog import INTENT, EntityRecord, Unfinished, entity_of

_NAMED: Final = 5
"""Number of entities that are named; the rest is counted."""


@dataclass(slots=True, kw_only=True)
class Strangers:
    """Generations that have fragments in a store, but no entity that is served."""

    # They belong to namespaces that are not served.
    kept: set[bytes] = field(default_factory=set)
    # The catalog has neither an entity nor an unfinished change for them.
    unknown: set[bytes] = field(default_factory=set)
    # Unfinished changes of namespaces that are served, or were removed. Their notes are
    # removed when their fragments are dropped.
    leftovers: list[Unfinished] = field(default_factory=list)


def find_strangers(
    table: FragmentTable,
    records: Iterable[EntityRecord],
    noted: Iterable[Unfinished],
    *,
    served: set[str],
    store_uuid: bytes,
) -> Strangers:
    """Sort all orphans of the table. `records` are those of all namespaces; names of
    those that are `served` are in lower case."""
    found = Strangers()
    records = list(records)
    entities = {record.generation for record in records}
    unserved = {record.namespace.lower() for record in records} - served
    by_generation = {
        one.generation: one for one in noted if one.store_uuid == store_uuid
    }
    for generation in table.orphans():
        one = by_generation.get(generation)
        if generation in entities:
            found.kept.add(generation)
        elif one is None or not is_unfinished(one, table.records_of(generation)):
            found.unknown.add(generation)
        elif one.namespace.lower() in unserved:
            found.kept.add(generation)
    found.leftovers = [
        one
        for one in by_generation.values()
        if one.namespace.lower() not in unserved
        and one.generation not in found.unknown | entities
    ]
    return found


def is_unfinished(one: Unfinished, fragments: Iterable[FragmentRecord]) -> bool:
    """True if these fragments may be dropped because of the noted change."""
    return one.kind != INTENT or not any(map(_is_used, fragments))


def _is_used(fragment: FragmentRecord) -> bool:
    """True if a message was ever sent to it."""
    return fragment.next_sequence > 1 or message_count(fragment) > 0


def message_count(fragment: FragmentRecord) -> int:
    return fragment.active_count + fragment.deferred_count + fragment.scheduled_count


def held_by_namespace(
    kept: set[bytes], records: Iterable[EntityRecord], table: FragmentTable
) -> list[str]:
    """Describe the kept fragments: one text for each namespace."""
    held: dict[str, list[int]] = {}
    for record in records:
        if record.generation in kept:
            count = sum(map(message_count, table.records_of(record.generation)))
            held.setdefault(record.namespace, []).append(count)
    return [
        f"{counted(len(counts), 'entity')} with {counted(sum(counts), 'message')} of "
        f"the namespace '{namespace}'"
        for namespace, counts in sorted(held.items())
    ]


def check_known(
    unknown: set[bytes],
    table: FragmentTable,
    stored: Sequence[StoredEntity],
    *,
    store: str,
    catalog: str,
    has_catalog: bool,
) -> None:
    """Raises CatalogIncomplete if there are unknown fragments."""
    if not unknown:
        return
    names = sorted(_path(one) for one in stored if one.generation in unknown)
    messages = sum(
        message_count(fragment)
        for generation in unknown
        for fragment in table.records_of(generation)
    )
    held = f"{counted(len(unknown), 'entity')} with {counted(messages, 'message')}"
    trouble = (
        f"The message store {store} holds {held} that the catalog {catalog} does not "
        f"know{_named(names)}. The catalog is older, or belongs to another store."
        if has_catalog
        else f"There is no catalog {catalog}, but the message store {store} holds "
        f"{held}{_named(names)}."
    )
    raise CatalogIncomplete(
        f"{trouble} Nothing was deleted. Put back the catalog that belongs to the "
        "store. If you have none, 'twinbus recover' restores the entities from the "
        "records in the store."
    )


def _path(stored: StoredEntity) -> str:
    try:
        return f"'{entity_of(stored).path}'"
    except ValueError:
        return "one that cannot be read"


def _named(names: list[str]) -> str:
    if not names:
        return ""
    more = len(names) - _NAMED
    end = f" and {more} more" if more > 0 else ""
    return f": {', '.join(names[:_NAMED])}{end}"


def counted(count: int, noun: str) -> str:
    """A number and its noun: 1 entity, 2 entities, 3 messages."""
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun[:-1]}ies" if noun.endswith("y") else f"{count} {noun}s"
