"""The syphon between two buses, over each of its engines."""

from dataclasses import replace
from datetime import timedelta

import pytest

from twinbus.amqp.messaging import Properties
from twinbus.amqp.types import Symbol
from twinbus.client.address import parse_address
from twinbus.client.namespace_connection import NamespaceConnection
from twinbus.clock import SystemClock
from twinbus.pairing.detour import RESTORED_FROM, SEND_ID
from twinbus.pairing.events import EventKind
from twinbus.pairing.own.secondary import OwnSecondary
from twinbus.pairing.syphon.errors import SecondaryError
from twinbus.testing import Bus

from .syphon_world import (
    BACKLOG,
    QUICK,
    Events,
    Make,
    backlog,
    bodies,
    body_of,
    counts,
    diverted,
    encoded,
    put,
    running,
    stored,
    taken,
    until,
)


async def test_messages_go_back_in_order_and_leave_the_backlog(
    primary: Bus, secondary: Bus, make: Make
) -> None:
    sent = [f"message {number}" for number in range(300)]
    await put(secondary, BACKLOG, [diverted("orders", body) for body in sent])
    async with running(make(primary, secondary)):
        assert await bodies(primary, "orders", 300) == sent
        await until(lambda: counts(secondary, BACKLOG) == (0, 0, 0))


async def test_everything_of_a_message_comes_back(
    primary: Bus, secondary: Bus, make: Make
) -> None:
    properties = Properties(
        message_id="id-1",
        correlation_id="correlation-1",
        subject="subject",
        to="to",
        reply_to="reply-to",
        reply_to_group_id="reply-to-session",
        content_type="text/plain",
    )
    annotations: dict[object, object] = {
        Symbol(SEND_ID): b"\xff\x00one send",
        Symbol("x-opt-partition-key"): "key",
    }
    own: dict[str, object] = {
        "text": "ä",
        "number": 7,
        "flag": True,
        "half": 0.5,
        "x-ms-path": "mine",
        "x-twinbus-own-x-ms-path": "mine, too",
    }
    await put(
        secondary,
        BACKLOG,
        [
            diverted(
                "orders",
                "body",
                own=own,
                properties=properties,
                annotations=annotations,
                time_to_live_ms=90_000,
            )
        ],
    )
    async with running(make(primary, secondary)):
        await until(lambda: counts(primary, "orders")[0] == 1)
        # Receivers are not told what is for ledgers.
        told = stored(primary, "orders").message_annotations or {}
        (message,) = await taken(primary, "orders", 1)
    assert body_of(message) == "body"
    assert message.application_properties == own
    assert message.header is not None
    assert message.header.ttl == 90_000
    found = message.properties
    assert found is not None
    for name in Properties.__dataclass_fields__:
        # The bus tells when it will expire, and the SDK since when it lives.
        if name not in ("absolute_expiry_time", "creation_time"):
            assert getattr(found, name) == getattr(properties, name), name
    assert told[SEND_ID] == b"\xff\x00one send"
    assert told["x-opt-partition-key"] == "key"
    number, generation, source = str(told[RESTORED_FROM]).split("@")
    assert number == "1"
    entity = secondary.server.namespace.entity(BACKLOG)
    assert int(generation) == entity.record.created_at
    assert source == f"localhost/{BACKLOG}"


async def test_sessions_come_back(primary: Bus, secondary: Bus, make: Make) -> None:
    primary.create_queue("steps", requires_session=True)
    sent = [diverted("steps", f"{n}", session_id=f"s{n % 2}") for n in range(10)]
    await put(secondary, BACKLOG, sent)
    async with running(make(primary, secondary)):
        await until(lambda: counts(primary, "steps")[0] == 10)
    fragment = primary.server.namespace.entity("steps").fragment()
    assert fragment.active_count == 10


async def test_topics_are_fanned_out_on_the_primary(
    primary: Bus, secondary: Bus, make: Make
) -> None:
    primary.create_topic("sales")
    primary.create_subscription("sales", "all")
    await put(secondary, BACKLOG, [diverted("sales", "one")])
    async with running(make(primary, secondary)):
        assert await bodies(primary, "sales/Subscriptions/all", 1) == ["one"]


async def test_a_schedule_holds_on_the_primary(
    primary: Bus, secondary: Bus, make: Make
) -> None:
    due_at = SystemClock().now() + 3_600_000
    await put(secondary, BACKLOG, [diverted("orders", "later", scheduled_at=due_at)])
    past = diverted("orders", "now", scheduled_at=due_at - 7_200_000)
    await put(secondary, BACKLOG, [past])
    async with running(make(primary, secondary)):
        assert await bodies(primary, "orders", 1) == ["now"]
        assert primary.server.namespace.entity("orders").fragment().scheduled_count
        primary.advance(timedelta(hours=2))
        assert await bodies(primary, "orders", 1) == ["later"]


async def test_surplus_queues_are_emptied(
    primary: Bus, secondary: Bus, make: Make
) -> None:
    for index in (1, 12):
        secondary.create_queue(backlog(index))
        await put(secondary, backlog(index), [diverted("orders", f"of {index}")])
    async with running(make(primary, secondary)) as syphon:
        assert sorted(await bodies(primary, "orders", 2)) == ["of 1", "of 12"]
        assert syphon.status().queues == (backlog(0), backlog(1), backlog(12))


async def test_an_idle_queue_is_asked_once(
    primary: Bus, secondary: Bus, make: Make
) -> None:
    async with running(make(primary, secondary)) as syphon:
        await until(lambda: syphon.status().receives == 1)
        await put(secondary, BACKLOG, [diverted("orders", "one")])
        assert await bodies(primary, "orders", 1) == ["one"]
        await until(lambda: syphon.status().receives == 2)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (encoded({"a": 1}), "MissingPath"),
        (encoded({"x-ms-path": 7}), "InvalidPath"),
        (encoded({"x-ms-path": "orders/$management"}), "InvalidPath"),
        (encoded({"x-ms-path": "orders", "x-ms-timetolive": "x"}), "InvalidProperty"),
        (encoded({"x-ms-path": "secret"}), "PathNotCovered"),
        (diverted("small", "x" * 20_000), "MessageSizeExceeded"),
        (diverted("steps", "no session"), "MessageRefused"),
    ],
)
async def test_poison_goes_to_the_dead_letters_and_holds_up_nobody(
    primary: Bus, secondary: Bus, make: Make, payload: bytes, reason: str
) -> None:
    primary.create_queue("small", max_message_size_in_kilobytes=1)
    primary.create_queue("steps", requires_session=True)
    good = diverted("orders", "good")
    await put(secondary, BACKLOG, [good, payload, good])
    settings = replace(QUICK, covers=lambda path: path != "secret")
    events = Events()
    async with running(make(primary, secondary, settings, events)):
        assert await bodies(primary, "orders", 2) == ["good", "good"]
        await until(lambda: counts(secondary, BACKLOG) == (0, 0, 1))
    (dead,) = await taken(secondary, f"{BACKLOG}/$DeadLetterQueue", 1)
    told = dead.application_properties or {}
    assert told["DeadLetterReason"] == reason
    assert told["DeadLetterErrorDescription"]
    assert [event.text for event in events.of(EventKind.POISON)] == [reason]


async def test_a_queue_that_was_made_again_has_numbers_of_its_own(
    make: Make, primary: Bus, secondary: Bus
) -> None:
    """Its first message has the number of one that the primary has had, and would be
    dropped if it came under the old queue's name."""
    settings = replace(QUICK, discovery_ms=300)
    async with running(make(primary, secondary, settings)) as syphon:
        await put(secondary, BACKLOG, [diverted("orders", "one")])
        await until(lambda: syphon.status().restored == 1)
        await until(lambda: counts(secondary, BACKLOG) == (0, 0, 0))
        secondary.advance(60)
        secondary.delete_queue(BACKLOG)
        secondary.create_queue(BACKLOG)
        await put(secondary, BACKLOG, [diverted("orders", "two")])
        assert await bodies(primary, "orders", 2) == ["one", "two"]


async def test_link_of_a_queue_that_is_gone_is_not_attached_to_its_successor(
    secondary: Bus,
) -> None:
    """Between two receives the queue is deleted and made again."""
    clock = SystemClock()
    address = parse_address(secondary.connection_string)
    backlogs = OwnSecondary(NamespaceConnection(address, clock), clock)
    [queue] = [one for one in await backlogs.queues(BACKLOG) if one.path == BACKLOG]
    source = backlogs.source(queue)
    assert await source.receive(1, 0.1) == []
    secondary.delete_queue(BACKLOG)
    secondary.create_queue(BACKLOG)
    await put(secondary, BACKLOG, [diverted("orders", "two")])
    receiver = source._receiver
    assert receiver is not None
    await until(lambda: not receiver.usable)
    with pytest.raises(SecondaryError) as refused:
        await source.receive(1, 0.1)
    assert refused.value.is_gone
    await source.close()
    await backlogs.close()
