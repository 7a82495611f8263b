"""The syphon: what it restores, parks, refuses and counts. P12 and P13."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusSubQueue
from azure.servicebus.aio import ServiceBusClient

from twinbus.pairing.events import EventKind

from .harness_audit import (
    QUIET_SECONDS,
    assert_once_each,
    eventually,
    ids_of,
    own_properties,
    text_of,
)
from .harness_world import HASTY, World, message, numbered

DEAD_LETTERS = {"sub_queue": ServiceBusSubQueue.DEAD_LETTER}
TICKS_PER_SECOND = 10_000_000


async def _put(world: World, index: int, *messages: ServiceBusMessage) -> None:
    """Straight into a backlog queue, as any sender with a right to it may."""
    text = world.secondary.connection_string()
    async with (
        ServiceBusClient.from_connection_string(text) as client,
        client.get_queue_sender(world.backlog_path(index)) as sender,
    ):
        await sender.send_messages(list(messages))


def _diverted(text: str, path: str, **kept: Any) -> ServiceBusMessage:
    """A message as P9 has it in a backlog queue."""
    properties = {f"x-ms-{name}": value for name, value in kept.items()}
    return message(text, application_properties={"x-ms-path": path, **properties})


async def _dead_letters(world: World, count: int) -> list[Any]:
    """Of all backlog queues."""

    async def found() -> list[Any]:
        portions = [
            await world.at_secondary.peeked(world.backlog_path(index), **DEAD_LETTERS)
            for index in range(2)
        ]
        letters = [letter for portion in portions for letter in portion]
        return letters if len(letters) >= count else []

    letters: list[Any] = await eventually(found, f"{count} dead letters")
    return letters


async def test_messages_come_back_to_their_entities(world: World) -> None:
    """P12: from all backlog queues, each to its own entity, once each."""
    first, second, topic = world.queue("a"), world.queue("b"), world.topic("all")
    client = await world.pair(backlog_queue_count=2, enable_syphon=True)
    world.way.refuse()
    senders = {
        "a": client.get_queue_sender(first),
        "b": client.get_queue_sender(second),
        "t": client.get_topic_sender(topic),
        "c": client.get_queue_sender(first),
    }
    await asyncio.gather(
        *(one.send_messages(numbered(stem, 20)) for stem, one in senders.items())
    )
    assert len(await world.backlog()) == 80
    world.way.heal()
    back = await world.at_primary.received(first, 40)
    assert_once_each([f"{stem}-{n}" for stem in "ac" for n in range(20)], back)
    back = await world.at_primary.received(second, 20)
    assert_once_each([f"b-{n}" for n in range(20)], back)
    back = await world.at_primary.received(f"{topic}/Subscriptions/all", 20)
    assert_once_each([f"t-{n}" for n in range(20)], back)
    await world.backlog_has(0)


async def test_session_ttl_and_schedule_are_restored(world: World) -> None:
    """P12: and the properties that carried them are gone."""
    queue = world.queue(requires_session=True)
    due = datetime.now(UTC) + timedelta(hours=2)
    client = await world.pair(enable_syphon=True)
    world.way.refuse()
    sender = client.get_queue_sender(queue)
    await sender.send_messages(
        message(
            "one",
            session_id="s-1",
            time_to_live=timedelta(days=3, seconds=7),
            application_properties={"colour": "red"},
            subject="label",
        )
    )
    await sender.send_messages(
        message("two", session_id="s-2", scheduled_enqueue_time_utc=due)
    )
    world.way.heal()
    (one,) = await world.at_primary.has(queue, 1, session_id="s-1")
    (two,) = await world.at_primary.has(queue, 1, session_id="s-2")
    assert (one.message_id, two.message_id) == ("one", "two")
    assert (one.session_id, two.session_id) == ("s-1", "s-2")
    assert one.time_to_live == timedelta(days=3, seconds=7)
    assert own_properties(one) == {"colour": "red"}
    assert one.subject == "label"
    assert two.state.name == "SCHEDULED"
    assert abs(two.scheduled_enqueue_time_utc - due) < timedelta(milliseconds=2)
    assert own_properties(two) == {}


async def test_own_properties_of_these_names_come_through(world: World) -> None:
    """P9: as if there had been no detour."""
    queue = world.queue()
    own = {
        "x-ms-path": "mine",
        "x-ms-sessionid": "s",
        "x-ms-timetolive": 17,
        "x-ms-scheduledenqueuetimeutc": True,
        "x-ms-other": "other",
        "x-twinbus-own-x-ms-path": "nested",
    }
    client = await world.pair(enable_syphon=True)
    sender = client.get_queue_sender(queue)
    await sender.send_messages(message("straight", application_properties=own))
    world.way.refuse()
    await sender.send_messages(message("detour", application_properties=own))
    world.way.heal()
    found = {one.message_id: one for one in await world.at_primary.has(queue, 2)}
    assert own_properties(found["straight"]) == own
    assert own_properties(found["detour"]) == own
    assert found["detour"].session_id is None


@pytest.mark.parametrize(
    ("written", "ttl"),
    [
        ("PT1H2M3S", timedelta(hours=1, minutes=2, seconds=3)),
        ("P2DT0.25S", timedelta(days=2, seconds=0.25)),
        (90 * TICKS_PER_SECOND, timedelta(seconds=90)),
    ],
    ids=["iso", "fraction", "ticks"],
)
async def test_a_time_to_live_of_another_writer_is_read(
    world: World, written: Any, ttl: timedelta
) -> None:
    """P9: an ISO 8601 duration, or ticks."""
    queue = world.queue()
    await world.pair(enable_syphon=True)
    await _put(world, 0, _diverted("one", queue, timetolive=written))
    (back,) = await world.at_primary.has(queue, 1)
    assert back.time_to_live == ttl


async def test_nothing_leaves_the_backlog_before_the_primary_took_it(
    world: World,
) -> None:
    """P12: it completes a message only after the primary accepted it."""
    queue = world.queue()
    client = await world.pair(enable_syphon=True, **HASTY)
    world.way.black_hole()
    await client.get_queue_sender(queue).send_messages(numbered("m", 10))
    # Long enough for several attempts of the syphon.
    await asyncio.sleep(2.5)
    assert len(await world.backlog()) == 10
    world.way.heal()
    back = await world.at_primary.received(queue, 10)
    assert_once_each([f"m-{n}" for n in range(10)], back)
    await world.backlog_has(0)


async def test_senders_do_not_run_it_and_receivers_do(world: World) -> None:
    """P12: `enable_syphon` false leaves the backlog to another process."""
    queue = world.queue()
    sending = await world.pair(enable_syphon=False)
    world.way.refuse()
    await sending.get_queue_sender(queue).send_messages(numbered("m", 4))
    world.way.heal()
    await asyncio.sleep(1.5)
    assert len(await world.backlog()) == 4
    receiving = await world.pair(enable_syphon=True)
    async with receiving.get_queue_receiver(queue) as receiver:
        found: list[str] = []
        async with asyncio.timeout(20):
            while len(found) < 4:
                for one in await receiver.receive_messages(4, max_wait_time=20):
                    await receiver.complete_message(one)
                    found.append(text_of(one))
    assert sorted(found) == [f"m-{n}" for n in range(4)]
    await world.backlog_has(0)


async def test_a_target_that_is_down_holds_up_nobody(world: World) -> None:
    """P12: it is parked, others go on, and its messages follow in their order."""
    down, up = world.queue("down"), world.queue("up")
    client = await world.pair(backlog_queue_count=1, enable_syphon=True)
    world.way.refuse()
    to_down, to_up = client.get_queue_sender(down), client.get_queue_sender(up)
    for number in range(5):
        await to_down.send_messages(message(f"d-{number}"))
        await to_up.send_messages(message(f"u-{number}"))
    world.primary.set_status(down, "SendDisabled")
    world.way.heal()
    back = await world.at_primary.received(up, 5)
    assert [text_of(one) for one in back] == [f"u-{n}" for n in range(5)]
    await world.hears(EventKind.PARKED, down)
    await _put(world, 0, _diverted("u-late", up), _diverted("d-late", down))
    assert ids_of(await world.at_primary.received(up, 1)) == ["u-late"]
    assert world.primary.message_count(down) == 0
    world.primary.set_status(down, "Active")
    back = await world.at_primary.received(down, 6)
    wanted = [*(f"d-{n}" for n in range(5)), "d-late"]
    assert [text_of(one) for one in back] == wanted
    assert world.told(EventKind.UNPARKED, down)
    assert world.told(EventKind.PARKED, up) == []


async def test_what_a_predecessor_parked_is_found_again(world: World) -> None:
    """P12: a syphon that starts later takes over what another deferred."""
    queue = world.queue()
    world.primary.set_status(queue, "SendDisabled")
    first = await world.pair(backlog_queue_count=1, enable_syphon=True)
    await _put(world, 0, *(_diverted(f"m-{n}", queue) for n in range(5)))
    await world.hears(EventKind.PARKED, queue)
    await world.closed(first)
    assert len(await world.at_secondary.peeked(world.backlog_path(0))) == 5
    world.primary.set_status(queue, "Active")
    await world.pair(backlog_queue_count=1, enable_syphon=True)
    back = await world.at_primary.received(queue, 5)
    assert [text_of(one) for one in back] == [f"m-{n}" for n in range(5)]


async def test_a_path_that_does_not_exist_holds_up_nobody(world: World) -> None:
    """P12: its message waits, or is dead-lettered with a reason; it is not lost."""
    queue, missing = world.queue(), world.path("missing")
    await world.pair(backlog_queue_count=1, enable_syphon=True)
    await _put(world, 0, _diverted("lost?", missing), _diverted("good", queue))
    assert ids_of(await world.at_primary.received(queue, 1)) == ["good"]
    path = world.backlog_path(0)

    async def kept() -> bool:
        waiting = await world.at_secondary.peeked(path)
        dead = await world.at_secondary.peeked(path, **DEAD_LETTERS)
        assert len(waiting) + len(dead) == 1, "lost"
        return bool(dead and dead[0].dead_letter_reason) or (
            bool(waiting) and waiting[0].state.name == "DEFERRED"
        )

    await eventually(kept, "the message parked or dead-lettered")


async def test_only_covered_entities_are_delivered_to(world: World) -> None:
    """P12: a right to send to a backlog queue is not a right to send everywhere."""
    inside, outside = world.queue("orders"), world.queue("payments")
    await world.pair(
        backlog_queue_count=1,
        enable_syphon=True,
        covered_entities=[f"{world.name}-orders-*"],
    )
    await _put(world, 0, _diverted("out", outside), _diverted("in", inside))
    assert ids_of(await world.at_primary.received(inside, 1)) == ["in"]
    (letter,) = await _dead_letters_of_one(world)
    assert letter.message_id == "out"
    assert letter.dead_letter_reason
    assert outside in str(letter.dead_letter_error_description)
    assert await world.at_primary.peeked(outside) == []


async def _dead_letters_of_one(world: World) -> list[Any]:
    path = world.backlog_path(0)

    async def found() -> list[Any]:
        return await world.at_secondary.peeked(path, **DEAD_LETTERS)

    letters: list[Any] = await eventually(found, "a dead letter")
    return letters


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"x-ms-path": ""},
        {"x-ms-path": 7},
        {"x-ms-timetolive": "soon"},
        {"x-ms-scheduledenqueuetimeutc": "tomorrow"},
    ],
    ids=str,
)
async def test_poison_is_dead_lettered_with_a_reason(
    world: World, properties: dict[str, Any]
) -> None:
    """P12: what cannot be restored goes aside and holds up nobody."""
    queue = world.queue()
    await world.pair(backlog_queue_count=1, enable_syphon=True)
    if "x-ms-path" not in properties and properties:
        properties = {**properties, "x-ms-path": queue}
    poison = message("poison", application_properties=properties)
    await _put(world, 0, poison, _diverted("good", queue))
    assert ids_of(await world.at_primary.received(queue, 1)) == ["good"]
    (letter,) = await _dead_letters_of_one(world)
    assert letter.message_id == "poison"
    assert letter.dead_letter_reason and letter.dead_letter_error_description
    assert world.told(EventKind.POISON)


async def test_what_its_entity_never_takes_is_poison(world: World) -> None:
    """P12: a message without session for a session queue is refused for good."""
    sessions, queue = world.queue(requires_session=True), world.queue()
    await world.pair(backlog_queue_count=1, enable_syphon=True)
    await _put(world, 0, _diverted("poison", sessions), _diverted("good", queue))
    assert ids_of(await world.at_primary.received(queue, 1)) == ["good"]
    (letter,) = await _dead_letters_of_one(world)
    assert letter.message_id == "poison"
    assert letter.dead_letter_reason


async def test_two_syphons_share_the_work_and_double_nothing(world: World) -> None:
    """P12: at least one process runs it; any number may."""
    queue = world.queue()
    client = await world.pair(backlog_queue_count=2)
    world.way.refuse()
    senders = [client.get_queue_sender(queue) for _ in range(4)]
    await asyncio.gather(
        *(one.send_messages(numbered(f"s{n}", 50)) for n, one in enumerate(senders))
    )
    world.way.heal()
    await world.pair(enable_syphon=True)
    await world.pair(enable_syphon=True)
    back = await world.at_primary.received(queue, 200)
    assert_once_each([f"s{n}-{m}" for n in range(4) for m in range(50)], back)
    await world.backlog_has(0)


async def test_time_in_the_backlog_does_not_count_by_default(world: World) -> None:
    """P9: a message has its whole time to live at the primary."""
    queue = world.queue()
    client = await world.pair(enable_syphon=True)
    world.way.refuse()
    ttl = timedelta(seconds=60)
    await client.get_queue_sender(queue).send_messages(message("m", time_to_live=ttl))
    await asyncio.sleep(1.2)
    world.way.heal()
    (back,) = await world.at_primary.has(queue, 1)
    assert back.time_to_live == ttl


async def test_time_in_the_backlog_counts_on_request(world: World) -> None:
    """P9: `count_backlog_against_ttl`: less is left, and nothing of an expired one."""
    queue = world.queue()
    client = await world.pair(
        enable_syphon=True, count_backlog_against_ttl=True, ping_primary_interval=1
    )
    world.way.refuse()
    sender = client.get_queue_sender(queue)
    await sender.send_messages(message("long", time_to_live=timedelta(seconds=60)))
    await sender.send_messages(message("short", time_to_live=timedelta(seconds=1)))
    await asyncio.sleep(2.0)
    world.way.heal()
    (back,) = await world.at_primary.has(queue, 1)
    assert back.message_id == "long"
    assert timedelta(seconds=20) < back.time_to_live < timedelta(seconds=58.5)
    (letter,) = await _dead_letters(world, 1)
    assert letter.message_id == "short"
    assert letter.dead_letter_reason
    assert "TTL" in letter.dead_letter_reason or "xpired" in letter.dead_letter_reason


async def test_a_throttled_target_is_waited_for_and_loses_nothing(
    world: World,
) -> None:
    """A2, P12: the syphon is a client of ours, and waits as they all do."""
    queue = world.queue()
    client = await world.pair(enable_syphon=True, busy_wait=1)
    world.way.refuse()
    await client.get_queue_sender(queue).send_messages(numbered("m", 5))
    world.primary.set_status(queue, "SendDisabled")
    world.way.heal()
    await asyncio.sleep(2)
    assert world.primary.message_count(queue) == 0
    world.primary.set_status(queue, "Active")
    back = await world.at_primary.received(queue, 5)
    assert_once_each([f"m-{n}" for n in range(5)], back)


async def test_an_idle_backlog_costs_one_long_receive_per_queue(world: World) -> None:
    """P13: it polls for 15 minutes at a time, so nothing is asked for meanwhile."""
    await world.pair(backlog_queue_count=2, enable_syphon=True)
    # What opening and the first look at both queues take.
    await _quiet(world)
    before = (world.secondary_way.client_bytes, world.secondary_way.connection_count)
    await asyncio.sleep(4)
    asked = world.secondary_way.client_bytes - before[0]
    assert world.secondary_way.connection_count == before[1]
    # Heartbeats are eight bytes; a receive, a peek or a renewal is far more.
    assert asked <= 64, f"{asked} bytes were asked of an idle backlog"


async def _quiet(world: World) -> None:
    """Wait until nothing was said to the secondary for a second."""
    last = -1
    while last != world.secondary_way.client_bytes:
        last = world.secondary_way.client_bytes
        await asyncio.sleep(1.0)


async def test_one_syphoned_message_is_four_operations(world: World) -> None:
    """P13: one send and one receive on each side; no message is sent or taken twice."""
    queue = world.queue()
    client = await world.pair(backlog_queue_count=1, enable_syphon=True)
    world.way.refuse()
    await client.get_queue_sender(queue).send_messages(message("one"))
    (waiting,) = await world.backlog_has(1)
    world.way.heal()
    (back,) = await world.at_primary.received(queue, 1)
    assert back.delivery_count in (0, None)
    # The only message that the backlog queue and the entity ever had.
    assert (waiting.sequence_number, back.sequence_number) == (1, 1)
    await _put(world, 0, _diverted("two", queue))
    (second,) = await world.at_primary.received(queue, 1)
    assert second.sequence_number == 2
    received = sum(one.count for one in world.told(EventKind.RECEIVED))
    restored = sum(one.count for one in world.told(EventKind.RESTORED))
    assert restored == 2
    assert received == 2, "a message was received from the backlog more than once"


async def test_messages_that_come_while_it_waits_are_moved_at_once(
    world: World,
) -> None:
    """P12: a long poll ends with the first message, not after 15 minutes."""
    queue = world.queue()
    await world.pair(backlog_queue_count=2, enable_syphon=True)
    await _quiet(world)
    for index in range(2):
        await _put(world, index, _diverted(f"m-{index}", queue))
        back = await world.at_primary.received(queue, 1)
        assert ids_of(back) == [f"m-{index}"]
    await asyncio.sleep(QUIET_SECONDS)
    await world.backlog_has(0)
