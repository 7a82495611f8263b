"""Peek: by sequence number, through all fragments."""

import pytest
from unit.entities.world import World

from twinbus.errors import FragmentUnavailable
from twinbus.operations import peeking
from twinbus.operations.peeking import peek
from twinbus.operations.sending import send

from .callers import opened
from .spread import bring_back, encoded, index_of, key_in, owner_at, take_away

PARTITIONED = {"enable_partitioning": True}


async def fill(world: World, *counts: int, path: str = "orders") -> list[int]:
    """So many messages in each fragment; returns their numbers."""
    numbers = []
    for index, count in enumerate(counts):
        for _ in range(count):
            numbers += await send(opened(world, path), [encoded(key=key_in(index))])
    return numbers


async def walked(world: World, count: int, start: int = 0) -> list[int]:
    """As a client does: each page begins behind the last number."""
    found: list[int] = []
    while page := await peek(opened(world), start, count):
        found += [item.sequence_number for item in page]
        start = found[-1] + 1
    return found


@pytest.mark.parametrize("count", [1, 2, 3, 100])
async def test_all_fragments_are_reached_by_repeating(
    spread: World, count: int
) -> None:
    await spread.namespace.create_queue("orders", PARTITIONED)
    sent = await fill(spread, 3, 0, 1, 2)
    assert [index_of(number) for number in sent] == [0, 0, 0, 2, 3, 3]
    assert await walked(spread, count) == sent


async def test_page_is_filled_from_the_next_fragments(spread: World) -> None:
    await spread.namespace.create_queue("orders", PARTITIONED)
    sent = await fill(spread, 2, 2, 2, 2)
    page = await peek(opened(spread), 0, 5)
    assert [item.sequence_number for item in page] == sent[:5]


async def test_page_holds_so_many_bytes_over_all_fragments(
    spread: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peeking, "PEEK_BYTES", 1_000)
    await spread.namespace.create_queue("orders", PARTITIONED)
    for index in (0, 1, 2):
        await send(opened(spread), [encoded("x" * 400, key=key_in(index))])
    pages = [len(await peek(opened(spread), start, 9)) for start in (0, 2 << 48)]
    assert pages == [2, 1]


async def test_fragment_that_is_away_is_an_error_and_not_left_out(
    several: World,
) -> None:
    await several.namespace.create_queue("orders", PARTITIONED)
    sent = await fill(several, 1, 1, 1, 1)
    await take_away(several, owner_at(several, 1))
    first = await peek(opened(several), 0, 9)
    assert [item.sequence_number for item in first] == sent[:1]
    with pytest.raises(FragmentUnavailable, match="Fragment 1 of 'orders'"):
        await peek(opened(several), sent[0] + 1, 9)
    rest = await peek(opened(several), 2 << 48, 9)
    assert [item.sequence_number for item in rest] == sent[2:]
    await bring_back(several, owner_at(several, 1))
    assert await walked(several, 9) == sent


async def test_session_is_peeked_in_its_fragment(spread: World) -> None:
    settings = {**PARTITIONED, "requires_session": True}
    await spread.namespace.create_queue("orders", settings)
    session, other = key_in(2), key_in(2, 1)
    for session_id in (session, other, session, key_in(3)):
        await send(opened(spread), [encoded(session_id=session_id)])
    found = await peek(opened(spread), 0, 9, session)
    numbers = [item.sequence_number for item in found]
    assert numbers == [(2 << 48) + 1, (2 << 48) + 3]
    assert len(await peek(opened(spread), numbers[0] + 1, 9, session)) == 1
    assert await peek(opened(spread), numbers[1] + 1, 9, session) == []
    assert await peek(opened(spread), 3 << 48, 9, session) == []


async def test_numbers_beyond_the_last_fragment_find_nothing(spread: World) -> None:
    await spread.namespace.create_queue("plain", {})
    await fill(spread, 1, path="plain")
    assert len(await peek(opened(spread, "plain"), -1, 9)) == 1
    assert await peek(opened(spread, "plain"), 1 << 48, 9) == []
    assert await peek(opened(spread, "plain"), (1 << 63) - 1, 9) == []
