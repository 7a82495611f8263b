"""Fragments by number and by entity, loaded on demand, kept through failures."""

import pytest

from twinbus.broker import settlement
from twinbus.broker.changes import ChangeSet, FragmentRecord
from twinbus.broker.fragment import DEAD_LETTER, MAIN, TRANSFER_DEAD_LETTER
from twinbus.broker.fragment_settings import FragmentSettings
from twinbus.broker.fragment_table import FragmentTable
from twinbus.errors import QuotaExceeded
from twinbus.limits import FRAGMENTS_PER_STORE

from .world import ACTOR, GENERATION, NOW, Place

OTHER = b"o" * 16


def test_fragments_are_loaded_when_somebody_asks() -> None:
    record = FragmentRecord(
        number=4, generation=GENERATION, index=2, sub_queue=MAIN, active_count=7
    )
    table = FragmentTable(1, [record])
    assert table.by_number(4) is None
    table.admit(GENERATION, FragmentSettings(path="orders"))
    assert table.loaded() == []
    fragment = table.by_number(4)
    assert fragment is not None and fragment.active_count == 7
    assert table.find(GENERATION, 2, MAIN) is fragment
    assert table.loaded() == [fragment]
    assert table.by_number(5) is None
    assert table.find(GENERATION, 2, DEAD_LETTER) is None


def test_dead_letter_queue_is_made_once_and_has_its_own_rules(place: Place) -> None:
    dead = place.dead_letters
    assert place.dead_letters is dead
    assert dead.number != place.queue.number
    assert dead.settings.path == "orders/$DeadLetterQueue"
    assert place.changes.is_empty()


def test_dead_letter_queue_that_is_known_is_loaded_with_its_rules() -> None:
    records = [
        FragmentRecord(number=0, generation=GENERATION, index=0, sub_queue=MAIN),
        FragmentRecord(number=1, generation=GENERATION, index=0, sub_queue=DEAD_LETTER),
    ]
    table = FragmentTable(1, records)
    table.admit(GENERATION, FragmentSettings(path="orders"))
    main = table.by_number(0)
    assert main is not None
    dead = table.sub_queue_of(main, DEAD_LETTER)
    assert (dead.number, dead.settings.is_dead_letter_queue) == (1, True)


def test_update_reaches_the_fragments_of_the_entity_alone(place: Place) -> None:
    place.table.admit(OTHER, FragmentSettings(path="other"))
    other = place.table.create(OTHER, 0, place.changes)
    dead = place.dead_letters
    new = FragmentSettings(path="orders", lock_duration_ms=5_000)
    place.table.update(GENERATION, new)
    assert place.queue.settings is new
    assert dead.settings.lock_duration_ms == 5_000
    assert dead.settings.is_dead_letter_queue
    assert other.settings.path == "other"


# --- dropping -------------------------------------------------------------------


def test_dropped_entity_is_forgotten_and_its_numbers_are_kept(place: Place) -> None:
    dead = place.dead_letters
    place.table.drop(GENERATION, place.changes)
    assert place.queue.is_dropped and dead.is_dropped
    assert sorted(place.changes.dropped) == [place.queue.number, dead.number]
    assert place.table.purging() == {place.queue.number, dead.number}
    assert place.table.by_number(place.queue.number) is None
    place.table.purged(dead.number)
    assert place.table.purging() == {place.queue.number}


def test_entity_that_was_never_loaded_is_dropped_too() -> None:
    record = FragmentRecord(number=4, generation=OTHER, index=0, sub_queue=MAIN)
    table = FragmentTable(1, [record])
    assert table.orphans() == {OTHER}
    changes = ChangeSet()
    table.drop(OTHER, changes)
    assert (table.orphans(), changes.dropped) == (set(), [4])


def test_admitted_entities_are_no_orphans(place: Place) -> None:
    assert place.table.orphans() == set()


def test_numbers_are_used_again_only_after_their_rows_are_purged() -> None:
    # All numbers but the last four: a main fragment has two sub-queues.
    used = FRAGMENTS_PER_STORE - 4
    records = [
        FragmentRecord(
            number=number, generation=OTHER, index=number // 3, sub_queue=number % 3
        )
        for number in range(used)
    ]
    table = FragmentTable(1, records)
    table.admit(GENERATION, FragmentSettings(path="orders"))
    changes = ChangeSet()
    assert table.create(GENERATION, 0, changes).number == used
    with pytest.raises(QuotaExceeded, match="65536 queues and sub-queues"):
        table.create(GENERATION, 1, changes)
    table.drop(OTHER, changes)
    with pytest.raises(QuotaExceeded):
        table.create(GENERATION, 1, changes)
    for number in range(17, 23):
        table.purged(number)
    made = table.create(GENERATION, 1, changes)
    table.sub_queue_of(made, DEAD_LETTER)
    table.sub_queue_of(made, TRANSFER_DEAD_LETTER)
    assert table.create(GENERATION, 2, changes).number == 17


def test_every_entity_has_room_for_its_dead_letters() -> None:
    """A lock may run out at any time, and nobody could be refused for it."""
    table, changes = FragmentTable(1, []), ChangeSet()
    made = []
    with pytest.raises(QuotaExceeded, match="3 for each fragment"):
        for number in range(FRAGMENTS_PER_STORE):
            generation = number.to_bytes(16, "big")
            table.admit(generation, FragmentSettings(path=f"q{number}"))
            made.append(table.create(generation, 0, changes))
    table.drop(number.to_bytes(16, "big"), changes)
    assert len(made) == FRAGMENTS_PER_STORE // 3
    for fragment in made:
        table.sub_queue_of(fragment, DEAD_LETTER)
        table.sub_queue_of(fragment, TRANSFER_DEAD_LETTER)


# --- failed commits -------------------------------------------------------------


def test_fragments_stay_the_same_objects_through_a_failure(place: Place) -> None:
    place.send(b"a")
    place.fail()
    assert place.table.by_number(place.queue.number) is place.queue
    assert place.queue.active_count == 1


def test_fragment_that_only_the_failed_commit_knew_is_void(place: Place) -> None:
    place.table.admit(OTHER, FragmentSettings(path="other"))
    other = place.table.create(OTHER, 0, place.changes)
    place.fail()
    assert place.table.by_number(other.number) is None
    assert place.table.find(OTHER, 0, MAIN) is None


def test_dead_letter_queue_of_a_failed_commit_is_empty_and_the_same(
    place: Place,
) -> None:
    """A receiver may be attached to it, and must get what comes later."""
    place.send(b"a")
    dead = place.dead_letters
    [lock] = place.lock()
    settlement.dead_letter(
        place.queue, lock, None, None, None, ACTOR, NOW, place.changes
    )
    assert dead.active_count == 1
    place.fail()
    assert place.dead_letters is dead
    assert (dead.active_count, dead.next_sequence) == (0, 1)
    place.refill()
    [lock] = place.lock()
    settlement.dead_letter(
        place.queue, lock, None, None, None, ACTOR, NOW, place.changes
    )
    place.commit()
    assert dead.window.ready_count() == 1


# --- a store that another owner has had ----------------------------------------------


def record_of(number: int, generation: bytes) -> FragmentRecord:
    return FragmentRecord(number=number, generation=generation, index=0, sub_queue=MAIN)


def test_number_that_another_owner_used_again_is_another_fragment() -> None:
    table = FragmentTable(1, [record_of(0, GENERATION)])
    table.admit(GENERATION, FragmentSettings(path="orders"))
    table.admit(OTHER, FragmentSettings(path="other"))
    before = table.by_number(0)
    assert before is not None
    table.restore([record_of(0, OTHER)])
    after = table.by_number(0)
    assert after is not None and after is not before
    assert (after.generation, before.is_dropped) == (OTHER, True)


def test_drops_of_before_do_not_reach_what_another_owner_made() -> None:
    table = FragmentTable(1, [record_of(0, GENERATION)])
    table.admit(GENERATION, FragmentSettings(path="orders"))
    table.drop(GENERATION, ChangeSet())
    assert table.purging() == {0}
    table.admit(OTHER, FragmentSettings(path="other"))
    table.forget_drops()
    table.restore([record_of(0, OTHER)])
    changes = ChangeSet()
    table.drop_again(changes)
    assert changes.dropped == [] and table.records_of(OTHER) == [record_of(0, OTHER)]
