"""Pairs of namespaces without extensions: both sites are `--strict`. P5 to P12.

The promises for all namespaces: nothing is lost, properties are restored, sessions and
topics work, and entities with duplicate detection find duplicates.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage

from twinbus.pairing.events import EventKind

from .harness_audit import assert_once_each, eventually, ids_of, own_properties
from .harness_size import largest_body
from .harness_world import HASTY, World, message, numbered


@pytest.fixture
def world(strict_world: World) -> World:
    return strict_world


@pytest.mark.parametrize("fault", ["refuse", "black_hole", "freeze", "kill", "stop"])
async def test_an_outage_loses_nothing(world: World, fault: str) -> None:
    """P6, P8, P12: killed, frozen, unreachable: sends go on and come back."""
    queue = world.queue()
    client = await world.pair(enable_syphon=True, **HASTY)
    sender = client.get_queue_sender(queue)
    await sender.send_messages(message("before"))
    if fault == "kill":
        world.primary.kill()
    elif fault == "stop":
        world.primary.freeze()
    else:
        getattr(world.way, fault)()
    await sender.send_messages(numbered("m", 5))
    assert len(await world.backlog()) == 5
    if fault == "kill":
        await world.primary.start()
    elif fault == "stop":
        world.primary.thaw()
    else:
        world.way.heal()
    await world.backlog_has(0)
    found = await world.at_primary.has(queue, 6)
    wanted = {"before", *(f"m-{n}" for n in range(5))}
    # A frozen primary may have had the first attempt: without our ledger a second
    # copy is what has to be accepted; a lost one never is.
    assert {one.message_id for one in _messages(found)} == wanted


def _messages(found: list[Any]) -> list[Any]:
    """Without pings, which such a namespace keeps until they expire."""
    return [one for one in found if "ping" not in str(one.content_type)]


async def test_senders_come_back_by_themselves(world: World) -> None:
    """P11: a ping is an ordinary message here, and still tells."""
    queue = world.queue()
    client = await world.pair()
    sender = client.get_queue_sender(queue)
    world.way.refuse()
    await sender.send_messages(message("during"))
    changes = len(world.told(EventKind.STATE_CHANGED, queue))
    world.way.heal()
    await world.hears(EventKind.STATE_CHANGED, queue, changes + 1)
    await sender.send_messages(message("after"))

    async def only_the_message() -> bool:
        return ids_of(await world.at_primary.peeked(queue)) == ["after"]

    await eventually(only_the_message, "the ping's end")


@pytest.mark.parametrize("kind", ["sessions", "topic", "duplicates"])
async def test_every_kind_of_entity_comes_back(world: World, kind: str) -> None:
    """P11: session-aware queues, topics, and queues that detect duplicates."""
    client = await world.pair()
    session = {"session_id": "s"} if kind == "sessions" else {}
    if kind == "topic":
        path = world.topic("all")
        sender, place = client.get_topic_sender(path), f"{path}/Subscriptions/all"
    else:
        path = place = world.queue(
            requires_session=kind == "sessions",
            requires_duplicate_detection=kind == "duplicates",
        )
        sender = client.get_queue_sender(path)
    world.way.refuse()
    await sender.send_messages(message("during", **session))
    changes = len(world.told(EventKind.STATE_CHANGED, path))
    world.way.heal()
    await world.hears(EventKind.STATE_CHANGED, path, changes + 1)
    await sender.send_messages(message("after", **session))

    async def only_the_message() -> bool:
        found = _messages(await world.at_primary.peeked(place, **session))
        return ids_of(found) == ["after"]

    await eventually(only_the_message, "the message at the primary")


async def test_properties_are_kept_and_restored(world: World) -> None:
    """P9, P12: the names on the wire are those of the original."""
    queue, due = world.queue(requires_session=True), datetime(2031, 1, 2, tzinfo=UTC)
    client = await world.pair(enable_syphon=True)
    sender = client.get_queue_sender(queue)
    world.way.refuse()
    await sender.send_messages(
        message(
            "one",
            session_id="s",
            time_to_live=timedelta(hours=5),
            application_properties={"colour": "red", "x-ms-path": "mine"},
        )
    )
    await sender.send_messages(
        message("two", session_id="s", scheduled_enqueue_time_utc=due)
    )
    kept = own_properties((await world.backlog_has(2))[0])
    assert kept["x-ms-path"] == queue
    assert (kept["x-ms-sessionid"], kept["x-ms-timetolive"]) == ("s", "PT5H")
    world.way.heal()
    await world.backlog_has(0)
    found = {
        one.message_id: one
        for one in _messages(await world.at_primary.peeked(queue, session_id="s"))
    }
    assert set(found) == {"one", "two"}
    assert found["one"].session_id == "s"
    assert found["one"].time_to_live == timedelta(hours=5)
    assert own_properties(found["one"]) == {"colour": "red", "x-ms-path": "mine"}
    assert found["two"].scheduled_enqueue_time_utc == due


async def test_a_primary_that_detects_duplicates_has_one_copy(world: World) -> None:
    """P12: message ids, given or assigned, do what our ledger does elsewhere."""
    queue = world.queue(requires_duplicate_detection=True)
    client = await world.pair(enable_syphon=True, **HASTY)
    sender = client.get_queue_sender(queue)
    await sender.send_messages(message("before"))
    world.way.mute()
    await sender.send_messages(message("twice?"))
    world.way.heal()
    await world.backlog_has(0)
    found = _messages(await world.at_primary.has(queue, 2))
    assert_once_each(["before", "twice?"], found)


async def test_a_parked_target_holds_up_nobody(world: World) -> None:
    """P12: deferring is all that it takes."""
    down, up = world.queue("down"), world.queue("up")
    client = await world.pair(backlog_queue_count=1, enable_syphon=True)
    world.way.refuse()
    await client.get_queue_sender(down).send_messages(numbered("d", 3))
    await client.get_queue_sender(up).send_messages(numbered("u", 3))
    world.primary.administration.delete_queue(down)
    world.way.heal()
    found = await world.at_primary.has(up, 3)
    assert_once_each([f"u-{n}" for n in range(3)], _messages(found))
    await world.hears(EventKind.PARKED, down)
    world.primary.create_queue(down)
    await world.backlog_has(0)
    found = await world.at_primary.has(down, 3)
    assert_once_each([f"d-{n}" for n in range(3)], _messages(found))


async def test_a_message_at_the_limit_goes_to_a_healthy_primary(world: World) -> None:
    """P5, P10: a stamp must not make a message too large for it."""
    size = await largest_body(world, world.queue("scratch"), message_id="largest")
    queue = world.queue()
    client = await world.pair(failover_interval=0)
    sender = client.get_queue_sender(queue)
    await sender.send_messages(ServiceBusMessage(b"x" * size, message_id="largest"))
    assert ids_of(await world.at_primary.has(queue, 1)) == ["largest"]
    assert await world.backlog() == []
