"""What a store counts of the messages that it has for other stores."""

import pytest

from twinbus.broker.changes import ChangeSet
from twinbus.broker.fragment_address import FragmentAddress, address_from, store_of
from twinbus.broker.outbox import DIVERTED, SENT, OutboxTotal, StoreOutbox
from twinbus.errors import ServerBusy
from twinbus.limits import OUTBOX_BYTES

STORE, OTHER = b"s" * 16, b"o" * 16
GENERATION = b"g" * 16
TARGET = FragmentAddress(STORE, GENERATION, 3)
FORWARDED_HERE = b"f" + GENERATION + b"\0\1\0"


def outbox(epoch: int = 1) -> StoreOutbox:
    made = StoreOutbox()
    made.begin(epoch)
    return made


def test_address_is_read_back_from_its_text() -> None:
    found = address_from(TARGET.text)
    assert (found.store_uuid, found.generation, found.index) == (STORE, GENERATION, 3)
    assert store_of(TARGET.text) == STORE


def test_ids_rise_over_restarts() -> None:
    before, after, changes = outbox(1), outbox(2), ChangeSet()
    for _ in range(3):
        before.add(TARGET, b"x", SENT, changes)
    after.add(TARGET, b"x", SENT, changes)
    ids = [entry.entry_id for entry in changes.outbox_added]
    assert ids == sorted(set(ids))


def test_everything_is_counted_and_forgotten() -> None:
    box, changes = outbox(), ChangeSet()
    box.add(TARGET, b"12345", DIVERTED, changes)
    box.add(FragmentAddress(OTHER, GENERATION, 0), b"123", FORWARDED_HERE, changes)
    assert set(box.lanes()) == {STORE, OTHER}
    assert (box.size_bytes, box.count_for(STORE)) == (8, 1)
    assert box.diverted() == [TARGET.text]
    assert box.transfer_count(GENERATION) == 1
    for entry in list(changes.outbox_added):
        box.remove(entry, changes)
    assert (box.lanes(), box.size_bytes, box.diverted()) == ([], 0, [])
    assert box.transfer_count(GENERATION) == 0


def test_totals_of_the_store_replace_what_was_counted() -> None:
    box, changes = outbox(), ChangeSet()
    box.add(TARGET, b"did not happen", DIVERTED, changes)
    total = OutboxTotal(
        target=TARGET.text, origin=FORWARDED_HERE, entry_count=2, size_bytes=20
    )
    box.restore([total])
    assert (box.size_bytes, box.count_for(STORE), box.diverted()) == (20, 2, [])


def test_limits_name_the_entity_and_the_limit() -> None:
    box, changes = outbox(), ChangeSet()
    box.add(TARGET, bytes(60), DIVERTED, changes)
    box.check_diverted(TARGET.text, 40, 100, "orders")
    with pytest.raises(ServerBusy, match=r"'orders'.*100 bytes"):
        box.check_diverted(TARGET.text, 41, 100, "orders")
    total = OutboxTotal(
        target=TARGET.text, origin=SENT, entry_count=1, size_bytes=OUTBOX_BYTES
    )
    box.restore([total])
    assert box.is_full()
    with pytest.raises(ServerBusy, match=str(OUTBOX_BYTES)):
        box.check_room(1, "orders")
