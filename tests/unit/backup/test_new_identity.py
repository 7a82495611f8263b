"""A restored bus is named anew wherever its stores are named."""

import json
from typing import Any

import pytest

from twinbus.backup.manifest import SQLITE, BackedUpStore
from twinbus.backup.new_identity import (
    catalog_of,
    catalog_text,
    named_anew,
)
from twinbus.broker.changes import StoredEntity
from twinbus.entities.store_entries import NAMESPACE, STORES
from twinbus.store.base import StoreError
from twinbus.store.catalog import TOMBSTONE, EntityRecord, Unfinished, stored_entity
from twinbus.store.catalog_move import CatalogContent

ONE, TWO, GONE = (bytes([n]) * 16 for n in (1, 2, 3))


def store(uuid: bytes) -> BackedUpStore:
    return BackedUpStore(
        kind=SQLITE,
        location=f"/old/{uuid[0]}",
        uuid=uuid.hex(),
        format_version=4,
        epoch=1,
        batch=1,
        message_count=0,
        place="store-1.sqlite3",
    )


def record(kind: str, *placement: bytes, **description: Any) -> EntityRecord:
    return EntityRecord(
        namespace="site",
        path="" if kind == NAMESPACE else "orders",
        kind=kind,
        generation=bytes(16),
        description=description,
        created_at=5,
        updated_at=6,
        placement=placement,
    )


BEFORE = {STORES: {ONE.hex(): "/old/1", TWO.hex(): "/old/2", GONE.hex(): "/old/3"}}
CONTENT = CatalogContent(
    identity=b"old",
    version=7,
    entities=[
        record(NAMESPACE, ONE, TWO, **BEFORE),
        record("queue", TWO, ONE, max_size=3),
    ],
    unfinished=[
        Unfinished(
            kind=TOMBSTONE,
            namespace="site",
            path="past",
            generation=b"g" * 16,
            store_uuid=TWO,
            noted_at=4,
        )
    ],
    cluster_key=b"old key",
    root_key="secret",
)


def test_stores_have_new_names_and_places() -> None:
    new = named_anew([store(ONE), store(TWO)], ["/new/1", "/new/2"], 9)
    one, two = (new.of_store(store(uuid)).uuid for uuid in (ONE, TWO))
    assert not {one, two} & {ONE, TWO}
    found = new.catalog(CONTENT)
    namespace, queue = found.entities
    # A store that the original had once is not known here.
    assert namespace.description[STORES] == {one.hex(): "/new/1", two.hex(): "/new/2"}
    assert namespace.placement == (one, two)
    assert queue.placement == (two, one)
    assert [noted.store_uuid for noted in found.unfinished] == [two]


def test_what_clients_know_stays() -> None:
    found = named_anew([store(ONE), store(TWO)], ["a", "b"], 9).catalog(CONTENT)
    queue = found.entities[1]
    assert (queue.path, queue.generation, queue.created_at) == ("orders", bytes(16), 5)
    assert (found.root_key, found.version) == ("secret", 7)
    assert found.identity != CONTENT.identity
    assert found.cluster_key != CONTENT.cluster_key


def test_copies_in_stores_are_renamed_too() -> None:
    new = named_anew([store(ONE), store(TWO)], ["a", "b"], 9)
    for entity in CONTENT.entities:
        copy = new.renamed_copy(stored_entity(entity))
        assert copy == stored_entity(new.renamed(entity))
        assert ONE.hex() not in copy.definition
    unreadable = StoredEntity(generation=bytes(16), definition="{}")
    assert new.renamed_copy(unreadable) is unreadable


def test_catalog_is_read_as_it_was_written() -> None:
    text = catalog_text(CONTENT)
    found = catalog_of(text)
    assert found.entities == CONTENT.entities
    assert found.unfinished == CONTENT.unfinished
    assert (found.version, found.root_key) == (7, "secret")
    # The key of brokers is not written down: a restored bus has another.
    assert found.cluster_key == b""
    assert CONTENT.cluster_key.hex() not in json.loads(text).values()


@pytest.mark.parametrize("text", ["", "{}", '{"identity": 3}', "[]"])
def test_unreadable_catalog_is_refused(text: str) -> None:
    with pytest.raises(StoreError, match="cannot be read"):
        catalog_of(text)
