"""Entries that another broker brings: taken once, in order, from the last owner."""

import asyncio

import pytest

from twinbus.broker.changes import OutboxEntry
from twinbus.broker.fragment_address import FragmentAddress
from twinbus.broker.outbox import FORWARDED, SENT
from twinbus.encoding.envelope import encode_envelope
from twinbus.errors import ServerBusy
from twinbus.outbox.remote_stores import Receipt

from .world import World, message, received

SOURCE = b"another store___"


def entry(world: World, number: int, kind: bytes = SENT) -> OutboxEntry:
    fragment = world.here.fragment()
    return OutboxEntry(
        entry_id=number,
        target=fragment.address().text,
        raw=encode_envelope(message(str(number))),
        origin=kind,
    )


async def append(world: World, *entries: OutboxEntry, epoch: int = 1) -> Receipt:
    uuid = world.first.store_uuid
    foreign = world.namespace.transfer_log.foreign
    return await foreign.append(uuid, SOURCE, epoch, list(entries))


async def test_entries_are_taken_and_dropped_when_they_come_again(
    world: World,
) -> None:
    first, second, third = (entry(world, number) for number in (1, 2, 3))
    receipt = await append(world, first, second)
    assert receipt.taken == [first, second]
    receipt = await append(world, first, second, third)
    assert receipt.taken == [first, second, third]
    assert received(world.here.fragment()) == ["1", "2", "3"]


async def test_two_owners_of_a_source_in_one_turn_double_nothing(world: World) -> None:
    entries = [entry(world, number) for number in (1, 2)]
    await asyncio.gather(append(world, *entries), append(world, *entries, epoch=2))
    assert received(world.here.fragment()) == ["1", "2"]


async def test_an_earlier_owner_of_the_source_is_refused(world: World) -> None:
    await append(world, entry(world, 1), epoch=2)
    with pytest.raises(ServerBusy, match="new owner"):
        await append(world, entry(world, 2), epoch=1)


async def test_a_store_that_is_not_here_is_refused(world: World) -> None:
    foreign = world.namespace.transfer_log.foreign
    with pytest.raises(ServerBusy, match="another broker"):
        await foreign.append(b"unknown", SOURCE, 1, [entry(world, 1)])


async def test_what_is_refused_follows_what_is_taken(world: World) -> None:
    """The rest comes again, when the source has what was refused."""
    gone = FragmentAddress(world.first.store_uuid, b"no such entity__", 0).text
    refused = OutboxEntry(
        entry_id=2, target=gone, raw=entry(world, 2).raw, origin=FORWARDED
    )
    first, third = entry(world, 1, FORWARDED), entry(world, 3, FORWARDED)
    receipt = await append(world, first, refused, third)
    assert receipt.taken == [first]
    assert [one.entry for one in receipt.refused] == [refused]
    assert (await append(world, third)).taken == [third]
    assert received(world.here.fragment()) == ["1", "3"]


async def test_a_full_target_is_told_to_the_source(world: World) -> None:
    fragment = world.here.fragment()
    assert (await append(world, entry(world, 1))).full == []
    fragment.resize(fragment.settings.max_size_bytes)
    receipt = await append(world, entry(world, 2))
    assert receipt.full == [fragment.address().text]
    assert len(receipt.taken) == 1
