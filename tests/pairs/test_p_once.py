"""No visible duplicates between twinbus sites, whichever answers were lost. P12, A5."""

import asyncio

import pytest

from twinbus.pairing.events import EventKind

from .harness_audit import assert_once_each, eventually, ids_of
from .harness_world import HASTY, World, message, numbered


async def test_a_send_that_was_committed_and_not_answered_is_seen_once(
    world: World,
) -> None:
    """P8, P12: the diverted copy comes back to a primary that has the first one."""
    queue = world.queue()
    client = await world.pair(enable_syphon=True, **HASTY)
    sender = client.get_queue_sender(queue)
    await sender.send_messages(message("before"))
    world.way.mute()
    await sender.send_messages(message("twice?"))
    assert ids_of(await world.at_primary.has(queue, 2)) == ["before", "twice?"]
    assert ids_of(await world.backlog()) == ["twice?"]
    world.way.heal()
    await world.backlog_has(0)
    found = await world.at_primary.has(queue, 2)
    assert_once_each(["before", "twice?"], found)


async def test_an_answer_that_is_cut_off_gives_no_second_copy(world: World) -> None:
    """P6: the second attempt, to the primary itself, finds the first one there."""
    queue = world.queue()
    client = await world.pair(failover_interval=10)
    sender = client.get_queue_sender(queue)
    await sender.send_messages(message("before"))
    for number in range(3):
        world.way.cut_answers_after(4)
        sending = asyncio.create_task(sender.send_messages(message(f"m-{number}")))
        await eventually(
            lambda wanted=number + 2: world.primary.message_count(queue) >= wanted,
            "the message at the primary",
        )
        world.way.heal()
        await sending
    found = await world.at_primary.has(queue, 4)
    assert_once_each(["before", "m-0", "m-1", "m-2"], found)
    assert await world.backlog() == []


async def test_a_list_that_was_committed_and_not_answered_is_seen_once(
    world: World,
) -> None:
    """P8: each message of a list has an id of its own."""
    queue = world.queue()
    client = await world.pair(enable_syphon=True, **HASTY)
    sender = client.get_queue_sender(queue)
    await sender.send_messages(message("before"))
    world.way.mute()
    await sender.send_messages(numbered("m", 20))
    world.way.heal()
    await world.backlog_has(0)
    found = await world.at_primary.has(queue, 21)
    assert_once_each(["before", *(f"m-{n}" for n in range(20))], found)


async def test_a_topic_and_a_session_see_it_once(world: World) -> None:
    """P8, P12: fan-out and sessions included."""
    topic, sessions = world.topic("a", "b"), world.queue("s", requires_session=True)
    client = await world.pair(enable_syphon=True, **HASTY)
    to_topic = client.get_topic_sender(topic)
    to_sessions = client.get_queue_sender(sessions)
    await to_topic.send_messages(message("t-0"))
    await to_sessions.send_messages(message("s-0", session_id="x"))
    world.way.mute()
    await to_topic.send_messages(message("t-1"))
    await to_sessions.send_messages(message("s-1", session_id="x"))
    world.way.heal()
    await world.backlog_has(0)
    for name in ("a", "b"):
        found = await world.at_primary.has(f"{topic}/Subscriptions/{name}", 2)
        assert_once_each(["t-0", "t-1"], found)
    found = await world.at_primary.received(sessions, 2, session_id="x")
    assert_once_each(["s-0", "s-1"], found)


async def test_a_primary_killed_after_its_commit_gives_one_copy(world: World) -> None:
    """B5, P12: what is remembered of sends survives `kill -9`."""
    queue = world.queue()
    client = await world.pair(enable_syphon=True, **HASTY)
    sender = client.get_queue_sender(queue)
    await sender.send_messages(message("before"))
    world.way.mute()
    sending = asyncio.create_task(sender.send_messages(message("twice?")))
    await eventually(
        lambda: world.primary.message_count(queue) == 2, "the message at the primary"
    )
    world.primary.kill()
    await sending
    assert ids_of(await world.backlog_has(1)) == ["twice?"]
    await world.primary.start()
    world.way.heal()
    await world.backlog_has(0)
    found = await world.at_primary.has(queue, 2)
    assert_once_each(["before", "twice?"], found)


async def test_a_restore_that_was_not_answered_is_not_done_twice(world: World) -> None:
    """P12: the syphon's own attempts leave one copy, too."""
    queue = world.queue()
    client = await world.pair(enable_syphon=True, **HASTY)
    sender = client.get_queue_sender(queue)
    world.way.refuse()
    await sender.send_messages(numbered("m", 10))
    world.way.heal()
    await world.backlog_has(0)
    assert len(await world.at_primary.has(queue, 10)) == 10
    # The syphon's link is open now; the next restores are committed unheard.
    world.way.mute()
    await client.get_queue_sender(queue).send_messages(numbered("n", 10))
    await asyncio.sleep(3)
    world.way.heal()
    await world.backlog_has(0)
    found = await world.at_primary.has(queue, 20)
    assert_once_each([f"{s}-{n}" for s in "mn" for n in range(10)], found)


async def test_a_secondary_killed_during_the_drain_gives_one_copy(
    world: World,
) -> None:
    """P12: completed or not, a restored message is restored once."""
    queue = world.queue()
    client = await world.pair(enable_syphon=False)
    world.way.refuse()
    await client.get_queue_sender(queue).send_messages(numbered("m", 200))
    world.way.heal()
    await world.closed(client)
    # Every commit at the secondary comes late, so that the kill finds some undone.
    world.secondary_way.delay(0.05)
    await world.pair(enable_syphon=True)
    await world.hears(EventKind.RESTORED)
    world.secondary.kill()
    await world.secondary.start()
    world.secondary_way.heal()
    await world.backlog_has(0)
    found = await world.at_primary.has(queue, 200)
    assert_once_each([f"m-{n}" for n in range(200)], found)


@pytest.mark.parametrize("fault", ["refuse", "black_hole", "mute"])
async def test_a_flapping_primary_loses_and_doubles_nothing(
    world: World, fault: str
) -> None:
    """P5 to P12: sends go on through three outages, and all come home once."""
    queue = world.queue()
    client = await world.pair(enable_syphon=True, **HASTY)
    sender = client.get_queue_sender(queue)
    sent: list[str] = []
    over = asyncio.Event()

    async def keep_sending() -> None:
        while not over.is_set():
            text = f"m-{len(sent)}"
            await sender.send_messages(message(text))
            sent.append(text)
            await asyncio.sleep(0.02)

    sending = asyncio.create_task(keep_sending())
    for outage in range(3):
        await eventually(
            lambda wanted=(outage + 1) * 10: len(sent) >= wanted or sending.done(),
            "sends",
        )
        diverted = len(world.told(EventKind.DIVERTED))
        getattr(world.way, fault)()
        await world.hears(EventKind.DIVERTED, count=diverted + 3)
        world.way.heal()
    over.set()
    await sending
    await world.backlog_has(0)
    assert_once_each(sent, await world.at_primary.has(queue, len(sent)))


async def test_order_within_a_session_is_kept_on_request(world: World) -> None:
    """P15: `keep_session_order`: new sends stay behind what its backlog still has."""
    queue = world.queue(requires_session=True)
    client = await world.pair(
        backlog_queue_count=2, keep_session_order=True, enable_syphon=True
    )
    sender = client.get_queue_sender(queue)
    texts: list[str] = []

    async def send(count: int) -> None:
        for _ in range(count):
            texts.append(f"m-{len(texts):03}")
            await sender.send_messages(message(texts[-1], session_id="s"))

    await send(3)
    world.way.refuse()
    await send(10)
    changes = len(world.told(EventKind.STATE_CHANGED, queue))
    world.way.heal()
    await world.hears(EventKind.STATE_CHANGED, queue, changes + 1)
    await send(10)
    back = await world.at_primary.received(queue, len(texts), session_id="s")
    assert [one.message_id for one in back] == texts


async def test_sessions_keep_their_order_from_one_sender(world: World) -> None:
    """P12: a sender stays with its backlog queue, which keeps the order."""
    queue = world.queue(requires_session=True)
    client = await world.pair(backlog_queue_count=2, enable_syphon=True)
    world.way.refuse()
    sender = client.get_queue_sender(queue)
    for number in range(12):
        await sender.send_messages(
            message(f"m-{number:02}", session_id=f"s-{number % 3}")
        )
    world.way.heal()
    for index in range(3):
        wanted = [f"m-{number:02}" for number in range(12) if number % 3 == index]
        found = await world.at_primary.received(
            queue, len(wanted), session_id=f"s-{index}"
        )
        assert [one.message_id for one in found] == wanted
