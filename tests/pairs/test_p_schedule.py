"""Schedules and duplicate detection through the detour. P9, P12."""

from datetime import UTC, datetime, timedelta

import pytest

from twinbus.pairing.errors import CannotCancel

from .harness_audit import eventually, ids_of
from .harness_world import World, message, numbered


def _later() -> datetime:
    return datetime.now(UTC) + timedelta(hours=1)


async def test_scheduling_on_a_healthy_primary_is_the_sdks_own(world: World) -> None:
    """P5: numbers are the primary's, and cancelling works as ever."""
    queue = world.queue()
    client = await world.pair()
    async with client.get_queue_sender(queue) as sender:
        numbers = await sender.schedule_messages(numbered("m", 2), _later())
        found = await world.at_primary.peeked(queue)
        assert sorted(numbers) == sorted(one.sequence_number for one in found)
        await sender.cancel_scheduled_messages(numbers[0])
    assert ids_of(await world.at_primary.peeked(queue)) == ["m-1"]
    assert await world.backlog() == []


async def test_scheduling_goes_through_the_detour(world: World) -> None:
    """P9: it is scheduled at the primary, at the time that was asked for."""
    queue, due = world.queue(), _later()
    client = await world.pair(enable_syphon=True)
    world.way.refuse()
    async with client.get_queue_sender(queue) as sender:
        numbers = await sender.schedule_messages(numbered("m", 2), due)
        assert len(numbers) == len(set(numbers)) == 2
        assert ids_of(await world.backlog()) == ["m-0", "m-1"]
    world.way.heal()
    found = await world.at_primary.has(queue, 2)
    assert ids_of(found) == ["m-0", "m-1"]
    assert {one.state.name for one in found} == {"SCHEDULED"}
    for one in found:
        assert abs(one.scheduled_enqueue_time_utc - due) < timedelta(milliseconds=2)


async def test_a_schedule_that_came_due_in_the_backlog_is_delivered(
    world: World,
) -> None:
    """P12: a time that has passed means now."""
    queue = world.queue()
    client = await world.pair(enable_syphon=True)
    world.way.refuse()
    async with client.get_queue_sender(queue) as sender:
        soon = datetime.now(UTC) + timedelta(seconds=0.5)
        await sender.schedule_messages(message("soon"), soon)
    assert ids_of(await world.backlog()) == ["soon"]
    world.way.heal()
    assert ids_of(await world.at_primary.received(queue, 1)) == ["soon"]


@pytest.mark.parametrize("first", ["after a failover", "before it"])
async def test_one_that_waits_in_a_backlog_can_be_cancelled(
    world: World, first: str
) -> None:
    """P9: between twinbus sites, while the primary is still away.

    A port that is closed has taken nothing, so the call that finds it closed is no
    reason to doubt.
    """
    queue = world.queue()
    client = await world.pair(backlog_queue_count=1, enable_syphon=True)
    world.way.refuse()
    async with client.get_queue_sender(queue) as sender:
        if first == "after a failover":
            await sender.send_messages(message("m-3"))
        numbers = await sender.schedule_messages(numbered("m", 3), _later())
        await sender.cancel_scheduled_messages(numbers[1])
    world.way.heal()
    await world.backlog_has(0)
    wanted = ["m-0", "m-2", "m-3"] if first == "after a failover" else ["m-0", "m-2"]
    assert ids_of(await world.at_primary.has(queue, len(wanted))) == wanted


async def test_one_that_came_back_can_be_cancelled(world: World) -> None:
    """P9: the number that the application has is good after the restore, too."""
    queue = world.queue()
    client = await world.pair(backlog_queue_count=1, enable_syphon=True)
    world.way.refuse()
    async with client.get_queue_sender(queue) as sender:
        numbers = await sender.schedule_messages(numbered("m", 2), _later())
        world.way.heal()
        assert len(await world.at_primary.has(queue, 2)) == 2
        await sender.cancel_scheduled_messages(numbers[0])

        async def one_left() -> bool:
            return ids_of(await world.at_primary.peeked(queue)) == ["m-1"]

        await eventually(one_left, "the cancelled one gone")


async def test_elsewhere_cancelling_in_a_backlog_is_a_clear_error(
    strict_world: World,
) -> None:
    """P9: a namespace that knows nothing of us cannot look for it."""
    world = strict_world
    queue = world.queue()
    client = await world.pair(backlog_queue_count=1)
    world.way.refuse()
    async with client.get_queue_sender(queue) as sender:
        await sender.send_messages(message("first"))
        numbers = await sender.schedule_messages(message("m"), _later())
        with pytest.raises(CannotCancel, match="cannot cancel"):
            await sender.cancel_scheduled_messages(numbers[0])
    assert ids_of(await world.backlog()) == ["first", "m"]


async def test_duplicate_detection_sees_through_the_detour(world: World) -> None:
    """P12: the same id, sent before, during and after an outage, is there once."""
    queue = world.queue(
        requires_duplicate_detection=True,
        duplicate_detection_history_time_window=timedelta(minutes=10),
    )
    client = await world.pair(enable_syphon=True)
    sender = client.get_queue_sender(queue)
    await sender.send_messages(message("same"))
    world.way.refuse()
    await sender.send_messages(message("same"))
    await sender.send_messages(message("during"))
    await sender.send_messages(message("during"))
    world.way.heal()
    await world.backlog_has(0)
    found = await world.at_primary.has(queue, 2)
    assert ids_of(found) == ["during", "same"]


async def test_equal_ids_without_duplicate_detection_are_two_messages(
    world: World,
) -> None:
    """P12: what the application sends twice on purpose arrives twice."""
    queue = world.queue()
    client = await world.pair(enable_syphon=True)
    sender = client.get_queue_sender(queue)
    await sender.send_messages(message("same"))
    world.way.refuse()
    await sender.send_messages(message("same"))
    again = message("same")
    await sender.send_messages(again)
    await sender.send_messages(again)
    world.way.heal()
    await world.backlog_has(0)
    assert ids_of(await world.at_primary.has(queue, 4)) == ["same"] * 4
