"""The form of a diverted message, and its size limit: P9 and P10."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import MessageSizeExceededError, ServiceBusError

from .harness_audit import ids_of, own_properties, text_of
from .harness_size import LIMIT_BYTES, largest_body
from .harness_world import World, message, numbered


async def _diverted(world: World, queue: str, *messages: Any, **options: Any) -> None:
    """Send while the primary is away."""
    client = await world.pair(**options)
    world.way.refuse()
    async with client.get_queue_sender(queue) as sender:
        for one in messages:
            await sender.send_messages(one)


async def test_the_destination_is_kept_as_a_property(world: World) -> None:
    """P9: so messages of many entities share one backlog queue."""
    first, second = world.queue("first"), world.queue("second")
    client = await world.pair(backlog_queue_count=1)
    world.way.refuse()
    async with (
        client.get_queue_sender(first) as to_first,
        client.get_queue_sender(second) as to_second,
    ):
        await to_first.send_messages(message("one"))
        await to_second.send_messages(message("two"))
    found = await world.at_secondary.peeked(world.backlog_path(0))
    paths = {one.message_id: own_properties(one)["x-ms-path"] for one in found}
    assert paths == {"one": first, "two": second}


async def test_session_ttl_and_schedule_are_removed_and_kept(world: World) -> None:
    """P9: none expires or is scheduled in the backlog; names and types are exact."""
    queue = world.queue(requires_session=True)
    due = datetime(2031, 5, 4, 3, 2, 1, 250_000, tzinfo=UTC)
    await _diverted(
        world,
        queue,
        message(
            "one",
            session_id="s-1",
            time_to_live=timedelta(hours=1, minutes=2, seconds=3),
            scheduled_enqueue_time_utc=due,
        ),
    )
    (found,) = await world.backlog()
    assert found.session_id is None
    assert found.time_to_live is None or found.time_to_live > timedelta(days=36_500)
    assert found.scheduled_enqueue_time_utc is None
    assert found.state.name == "ACTIVE"
    kept = own_properties(found)
    assert kept["x-ms-sessionid"] == "s-1"
    assert kept["x-ms-timetolive"] == "PT1H2M3S"
    assert _instant(kept["x-ms-scheduledenqueuetimeutc"]) == due
    assert kept["x-ms-path"] == queue


def _instant(value: Any) -> datetime:
    """The SDK gives a timestamp as milliseconds or as a datetime."""
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    assert isinstance(value, int), f"a timestamp, not {value!r}"
    return datetime.fromtimestamp(value / 1000, UTC)


async def test_what_was_not_set_is_not_kept(world: World) -> None:
    """P9: a plain message gets its path and nothing else of these names."""
    queue = world.queue()
    await _diverted(world, queue, message("one"))
    (found,) = await world.backlog()
    names = {name for name in own_properties(found) if name.startswith("x-ms-")}
    assert names == {"x-ms-path"}


async def test_everything_else_comes_along(world: World) -> None:
    """P9: the rest of the message is the sender's."""
    queue = world.queue()
    await _diverted(
        world,
        queue,
        ServiceBusMessage(
            b"\x00\xffbytes",
            message_id="id",
            application_properties={"n": 7, "t": "text", "b": True, "f": 1.5},
            subject="subject",
            content_type="application/x",
            correlation_id="c",
            reply_to="r",
            reply_to_session_id="rs",
            to="t",
        ),
    )
    (found,) = await world.backlog()
    assert b"".join(found.body) == b"\x00\xffbytes"
    kept = own_properties(found)
    assert {name: kept[name] for name in "ntbf"} == {
        **{"n": 7, "t": "text"},
        **{"b": True, "f": 1.5},
    }
    assert (found.subject, found.content_type) == ("subject", "application/x")
    assert (found.correlation_id, found.reply_to) == ("c", "r")
    assert (found.reply_to_session_id, found.to) == ("rs", "t")


async def test_a_message_without_an_id_gets_one_before_its_first_attempt(
    world: World,
) -> None:
    """P9: what other primaries find duplicates by."""
    queue = world.queue()
    await _diverted(world, queue, ServiceBusMessage("no id"))
    (found,) = await world.backlog()
    assert found.message_id


async def test_own_properties_of_these_names_are_not_lost(world: World) -> None:
    """P9: the application's values are still somewhere in the diverted message."""
    queue = world.queue()
    own = {"x-ms-path": "mine", "x-ms-sessionid": "also mine", "other": "o"}
    await _diverted(world, queue, message("one", application_properties=own))
    (found,) = await world.backlog()
    kept = own_properties(found)
    assert kept["x-ms-path"] == queue
    assert kept["other"] == "o"
    assert {"mine", "also mine"} <= set(kept.values())


async def test_a_list_of_messages_is_diverted_whole(world: World) -> None:
    """P9: a list becomes diverted messages, each with its own properties."""
    queue = world.queue(requires_session=True)
    await _diverted(world, queue, numbered("m", 5, session_id="s"))
    found = await world.backlog()
    assert ids_of(found) == [f"m-{number}" for number in range(5)]
    assert {own_properties(one)["x-ms-sessionid"] for one in found} == {"s"}


async def test_a_message_batch_of_the_sdk_is_diverted(world: World) -> None:
    """P9: `create_message_batch` works with the primary away as well."""
    queue = world.queue()
    client = await world.pair()
    async with client.get_queue_sender(queue) as sender:
        batch = await sender.create_message_batch()
        for one in numbered("before", 3):
            batch.add_message(one)
        await sender.send_messages(batch)
        world.way.refuse()
        late = await sender.create_message_batch()
        for one in numbered("during", 3):
            late.add_message(one)
        await sender.send_messages(late)
    assert ids_of(await world.at_primary.has(queue, 3))[0] == "before-0"
    assert ids_of(await world.backlog()) == ["during-0", "during-1", "during-2"]


async def test_a_batch_of_the_primarys_size_is_split_as_needed(world: World) -> None:
    """P9: a batch that fits the primary is sent, whatever the properties add."""
    queue = world.queue()
    # Thousands of messages take a slow machine a while.
    client = await world.pair(backlog_queue_count=1, attempt_timeout=20)
    async with client.get_queue_sender(queue) as sender:
        batch = await sender.create_message_batch()
        count = 0
        try:
            while True:
                batch.add_message(message(f"m-{count:04}", session_id="s"))
                count += 1
        except MessageSizeExceededError:
            pass
        world.way.refuse()
        await sender.send_messages(batch)
    found = await world.at_secondary.peeked(world.backlog_path(0))
    assert len(found) == count
    assert ids_of(found) == [f"m-{number:04}" for number in range(count)]


async def test_a_message_exactly_at_the_limit_goes_to_a_healthy_primary(
    world: World,
) -> None:
    """P5, P10: while the primary is healthy nothing changes, sizes included."""
    size = await largest_body(world, world.queue("scratch"), message_id="largest")
    queue = world.queue()
    client = await world.pair()
    async with client.get_queue_sender(queue) as sender:
        await sender.send_messages(ServiceBusMessage(b"x" * size, message_id="largest"))
        # Beyond the head-room that stamped messages have (docs/reference/extensions).
        with pytest.raises(MessageSizeExceededError):
            await sender.send_messages(
                ServiceBusMessage(b"x" * (size + 9_000), message_id="larger")
            )
    (found,) = await world.at_primary.has(queue, 1)
    assert len(b"".join(found.body)) == size
    assert await world.backlog() == []


async def test_a_twinbus_secondary_takes_a_message_at_the_limit(world: World) -> None:
    """P10: transfer queues have head-room over the limit, for all properties."""
    properties: dict[str, Any] = {
        "message_id": "largest",
        "session_id": "s" * 128,
        "time_to_live": timedelta(days=3, hours=4, minutes=5, seconds=6.789),
    }
    scratch = world.queue("scratch", requires_session=True)
    size = await largest_body(world, scratch, **properties)
    queue = world.queue(requires_session=True)
    client = await world.pair(enable_syphon=True)
    world.way.refuse()
    async with client.get_queue_sender(queue) as sender:
        await sender.send_messages(ServiceBusMessage(b"x" * size, **properties))
        assert ids_of(await world.backlog_has(1)) == ["largest"]
    world.way.heal()
    (back,) = await world.at_primary.received(queue, 1, session_id="s" * 128)
    assert len(b"".join(back.body)) == size


async def test_a_message_over_the_limit_is_refused_during_an_outage_too(
    world: World,
) -> None:
    """P10: what the primary would never take is not taken for it."""
    queue = world.queue()
    client = await world.pair()
    async with client.get_queue_sender(queue) as sender:
        await sender.send_messages(message("before"))
        world.way.refuse()
        await sender.send_messages(message("during"))
        with pytest.raises((MessageSizeExceededError, ServiceBusError)):
            # Beyond the head-room of transfer queues, too.
            await sender.send_messages(ServiceBusMessage(b"x" * (LIMIT_BYTES + 9_000)))
        await sender.send_messages(message("after"))
    assert ids_of(await world.backlog()) == ["after", "during"]


async def test_another_secondary_refuses_it_with_a_clear_error(
    strict_world: World,
) -> None:
    """P10: a secondary without head-room: an error that says what is too large."""
    world = strict_world
    size = await largest_body(world, world.queue("scratch"), message_id="largest")
    queue = world.queue()
    client = await world.pair()
    world.way.refuse()
    async with client.get_queue_sender(queue) as sender:
        await sender.send_messages(message("small"))
        with pytest.raises(ServiceBusError, match=r"fit|large|size"):
            await sender.send_messages(
                ServiceBusMessage(b"x" * size, message_id="largest")
            )
        # And it says nothing of the backlog queues.
        await sender.send_messages(message("small too"))
    found = await world.backlog()
    assert sorted(text_of(one) for one in found) == ["small", "small too"]
