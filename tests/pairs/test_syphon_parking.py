"""Entities that accept no messages, and a primary that is away: other entities do not
wait, nothing is lost, and order is kept."""

from dataclasses import replace

import pytest

from twinbus.pairing.events import EventKind
from twinbus.testing import Bus

from .syphon_world import (
    BACKLOG,
    QUICK,
    Events,
    Make,
    SdkSyphon,
    backlog,
    bodies,
    counts,
    diverted,
    killed_before_it_settles,
    link_to,
    own_syphon,
    put,
    running,
    taken,
    until,
)


def mixed(first: int, last: int) -> list[bytes]:
    """Messages of two entities in turn."""
    return [
        diverted(path, f"{path} {number}")
        for number in range(first, last)
        for path in ("down", "orders")
    ]


def numbered(path: str, count: int) -> list[str]:
    return [f"{path} {number}" for number in range(count)]


@pytest.mark.parametrize("trouble", ["missing", "disabled"])
async def test_one_entity_is_parked_while_others_flow(
    primary: Bus, secondary: Bus, make: Make, trouble: str
) -> None:
    if trouble == "disabled":
        primary.create_queue("down", status="Disabled")
    await put(secondary, BACKLOG, mixed(0, 20))
    events = Events()
    async with running(make(primary, secondary, events=events)) as syphon:
        assert await bodies(primary, "orders", 20) == numbered("orders", 20)
        await until(lambda: counts(secondary, BACKLOG) == (0, 20, 0))
        assert syphon.status().parked_entities == ("down",)
        await put(secondary, BACKLOG, mixed(20, 30))
        await until(lambda: counts(secondary, BACKLOG) == (0, 30, 0))
        if trouble == "disabled":
            primary.update_queue("down", status="Active")
        else:
            primary.create_queue("down")
        assert await bodies(primary, "down", 30) == numbered("down", 30)
        await until(lambda: counts(secondary, BACKLOG) == (0, 0, 0))
        assert syphon.status().parked_entities == ()
        await put(secondary, BACKLOG, [diverted("down", "new")])
        assert await bodies(primary, "down", 1) == ["new"]
    assert [event.path for event in events.of(EventKind.PARKED)] == ["down"]
    assert [event.path for event in events.of(EventKind.UNPARKED)] == ["down"]


async def test_deferred_messages_of_a_predecessor_are_found(
    primary: Bus, secondary: Bus, make: Make
) -> None:
    await put(secondary, BACKLOG, mixed(0, 10))
    async with running(make(primary, secondary)):
        await until(lambda: counts(secondary, BACKLOG) == (0, 10, 0))
    await put(secondary, BACKLOG, mixed(10, 15))
    primary.create_queue("down")
    async with running(make(primary, secondary)):
        assert await bodies(primary, "down", 15) == numbered("down", 15)
        await until(lambda: counts(secondary, BACKLOG) == (0, 0, 0))


async def test_many_pages_of_deferred_messages_come_back_in_order(
    primary: Bus, secondary: Bus
) -> None:
    await put(secondary, BACKLOG, mixed(0, 600))
    async with running(own_syphon(primary, secondary)):
        await until(lambda: counts(secondary, BACKLOG) == (0, 600, 0))
        primary.create_queue("down")
        assert await bodies(primary, "down", 600) == numbered("down", 600)


async def test_messages_for_nobody_are_dead_lettered_after_a_grace(
    primary: Bus, secondary: Bus, make: Make
) -> None:
    settings = replace(QUICK, missing_entity_grace_ms=300)
    await put(secondary, BACKLOG, [diverted("nobody", "one")])
    async with running(make(primary, secondary, settings)):
        await until(lambda: counts(secondary, BACKLOG) == (0, 0, 1))
        # Those that come later have had their grace.
        await put(secondary, BACKLOG, [diverted("nobody", "two")])
        await until(lambda: counts(secondary, BACKLOG) == (0, 0, 2))
        primary.create_queue("nobody")
        await put(secondary, BACKLOG, [diverted("nobody", "three")])
        await until(
            lambda: counts(primary, "nobody")[0] or counts(secondary, BACKLOG)[2] == 3
        )
    dead = await taken(secondary, f"{BACKLOG}/$DeadLetterQueue", 2)
    reasons = {(m.application_properties or {})["DeadLetterReason"] for m in dead}
    assert reasons == {"MessagingEntityNotFound"}


async def test_a_right_that_is_missing_is_waited_for_and_told(
    primary: Bus, secondary: Bus, caplog: pytest.LogCaptureFixture
) -> None:
    await put(secondary, BACKLOG, [diverted("orders", "one")])
    listening = primary.connection_string_for("Listen")
    syphon = own_syphon(primary, secondary, primary_string=listening)
    async with running(syphon):
        await until(lambda: counts(secondary, BACKLOG) == (0, 1, 0))
        assert syphon.status().poison == 0
    told = [record for record in caplog.records if record.levelname == "ERROR"]
    assert "orders on the primary is parked" in told[0].getMessage()


async def test_nothing_is_deferred_while_the_whole_primary_is_away(
    primary: Bus, secondary: Bus, make: Make
) -> None:
    events = Events()
    async with running(make(primary, secondary, events=events)) as syphon:
        primary.stop()
        await put(secondary, BACKLOG, mixed(0, 50))
        await until(lambda: not syphon.status().is_primary_reachable)
        await until(lambda: counts(secondary, BACKLOG) == (100, 0, 0))
        assert syphon.status().parked == 0
        primary.start()
        primary.create_queue("down")
        assert await bodies(primary, "orders", 50) == numbered("orders", 50)
        assert await bodies(primary, "down", 50) == numbered("down", 50)
    assert [event.path for event in events.of(EventKind.PARKED)] == [""]
    assert [event.path for event in events.of(EventKind.UNPARKED)] == [""]


async def test_a_secondary_that_was_away_is_emptied_when_it_is_back(
    primary: Bus, secondary: Bus, make: Make
) -> None:
    async with running(make(primary, secondary)) as syphon:
        await until(lambda: syphon.status().receives == 1)
        secondary.restart()
        await put(secondary, BACKLOG, [diverted("orders", "one")])
        assert await bodies(primary, "orders", 1) == ["one"]


async def test_two_syphons_restore_everything_once(
    primary: Bus, secondary: Bus
) -> None:
    for index in range(1, 4):
        secondary.create_queue(backlog(index))
    for index in range(4):
        sent = [diverted("orders", f"{index} {number}") for number in range(300)]
        await put(secondary, backlog(index), sent)
    first, second = own_syphon(primary, secondary), SdkSyphon(primary, secondary)
    async with running(first), running(second):
        found = await bodies(primary, "orders", 1_200)
        assert len(set(found)) == 1_200
        for index in range(4):
            await until(lambda at=index: counts(secondary, backlog(at)) == (0, 0, 0))
    assert counts(primary, "orders") == (0, 0, 0)


async def test_messages_restored_and_not_completed_are_restored_once(
    primary: Bus, secondary: Bus
) -> None:
    sent = [diverted("orders", f"{number}") for number in range(100)]
    await put(secondary, BACKLOG, sent)
    events = Events()
    first = own_syphon(primary, secondary, events=events)
    # As if it were killed: what it has not settled when the primary has it, it never
    # will.
    source = await killed_before_it_settles(first)
    # How many come with the first read depends on the machine.
    await until(lambda: source.restored)
    await first.close(at_once=True)
    assert counts(primary, "orders")[0] >= source.restored
    assert source.completed == 0
    secondary.advance(120)
    async with running(own_syphon(primary, secondary)):
        await until(lambda: counts(secondary, BACKLOG) == (0, 0, 0))
    assert await bodies(primary, "orders", 100) == [str(n) for n in range(100)]
    assert counts(primary, "orders") == (0, 0, 0)


async def test_what_is_in_hand_at_the_end_goes_back(
    primary: Bus, secondary: Bus
) -> None:
    primary.stop()
    await put(secondary, BACKLOG, [diverted("orders", "one")])
    async with running(own_syphon(primary, secondary)) as syphon:
        await until(lambda: not syphon.status().is_primary_reachable)
    # Without waiting for the end of a lock.
    async with await link_to(secondary) as connection:
        receiver = await connection.receiver(BACKLOG, settled=True)
        assert await receiver.receive_batch(1, timeout_seconds=5)
    primary.start()
