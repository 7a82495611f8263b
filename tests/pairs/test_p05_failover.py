"""When an entity fails over, and the effect on a send: P5 to P8."""

import asyncio

import pytest
from azure.servicebus.exceptions import (
    MessageSizeExceededError,
    OperationTimeoutError,
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
    ServiceBusError,
)

from twinbus.pairing import pair_namespace
from twinbus.pairing.events import EventKind
from twinbus.pairing.failures import VERDICTS, FailureKind, Verdict

from .harness_audit import assert_once_each, eventually, ids_of
from .harness_site import LISTEN_ONLY_KEY
from .harness_world import HASTY, World, message, numbered, timed


async def test_nothing_changes_while_the_primary_is_healthy(world: World) -> None:
    """P5: messages go to the primary, as they are, and the secondary gets none."""
    queue = world.queue()
    client = await world.pair()
    async with client.get_queue_sender(queue) as sender:
        await sender.send_messages(
            message("one", application_properties={"colour": "red"}, subject="s")
        )
        await sender.send_messages(numbered("m", 3))
    found = await world.at_primary.has(queue, 4)
    assert ids_of(found) == ["m-0", "m-1", "m-2", "one"]
    assert found[0].application_properties == {b"colour": b"red"}
    assert found[0].subject == "s"
    assert await world.backlog() == []
    assert world.told(EventKind.DIVERTED) == []


async def test_failover_is_per_entity(world: World) -> None:
    """P5: one entity's trouble says nothing of another."""
    ill, well = world.queue("ill"), world.queue("well")
    client = await world.pair()
    world.primary.administration.delete_queue(ill)
    async with (
        client.get_queue_sender(ill) as to_ill,
        client.get_queue_sender(well) as to_well,
    ):
        await to_ill.send_messages(message("ill-1"))
        await to_well.send_messages(message("well-1"))
        await to_ill.send_messages(message("ill-2"))
    assert ids_of(await world.backlog()) == ["ill-1", "ill-2"]
    assert ids_of(await world.at_primary.has(well, 1)) == ["well-1"]
    assert {event.path for event in world.told(EventKind.DIVERTED)} == {ill}


async def test_a_send_waits_out_the_interval_and_then_takes_the_detour(
    world: World,
) -> None:
    """P6: it does not fail during `failover_interval`; it comes no earlier, either."""
    queue = world.queue()
    client = await world.pair(failover_interval=1.5)
    async with client.get_queue_sender(queue) as sender:
        await sender.send_messages(message("before"))
        world.way.refuse()
        lap = timed()
        await sender.send_messages(message("during"))
        # One attempt and the interval is the promise; the rest is a slow machine's.
        assert 1.4 < lap() < 6.0
    assert ids_of(await world.backlog()) == ["during"]


async def test_a_success_stops_the_timer(world: World) -> None:
    """P6: trouble shorter than the interval ends at the primary, and starts anew."""
    queue = world.queue()
    client = await world.pair(failover_interval=4)
    async with client.get_queue_sender(queue) as sender:
        await sender.send_messages(message("before"))
        for text in ("first", "second", "third"):
            world.way.refuse()
            waiting = asyncio.create_task(sender.send_messages(message(text)))
            await world.hears(EventKind.STATE_CHANGED, queue)
            world.way.heal()
            # Three troubles of more than the interval together are no failover.
            await waiting
    assert len(await world.at_primary.has(queue, 4)) == 4
    assert await world.backlog() == []


async def test_a_zero_interval_fails_over_at_the_first_failure(world: World) -> None:
    """P6: zero means at the first such failure."""
    queue = world.queue()
    client = await world.pair(failover_interval=0)
    async with client.get_queue_sender(queue) as sender:
        await sender.send_messages(message("before"))
        world.way.refuse()
        await sender.send_messages(message("during"))
    assert ids_of(await world.backlog()) == ["during"]


async def test_a_send_ends_with_its_own_time_out(world: World) -> None:
    """P6: waiting for the way to open is bounded by the send's own time-out."""
    queue = world.queue()
    client = await world.pair(failover_interval=60)
    world.way.refuse()
    async with client.get_queue_sender(queue) as sender:
        lap = timed()
        with pytest.raises(OperationTimeoutError):
            await sender.send_messages(message("late"), timeout=1.5)
        assert 1.0 < lap() < 5.0
    assert await world.backlog() == []


async def test_the_first_failure_is_raised_where_waiting_is_not_wanted(
    world: World,
) -> None:
    """P6: `wait_during_failover=False` raises, until the entity has failed over."""
    queue = world.queue()
    client = await world.pair(wait_during_failover=False, failover_interval=0.5)
    world.way.refuse()
    async with client.get_queue_sender(queue) as sender:
        with pytest.raises(ServiceBusError):
            await sender.send_messages(message("raised"))

        async def accepted() -> bool:
            try:
                await sender.send_messages(message("diverted"))
            except ServiceBusError:
                return False
            return True

        await eventually(accepted, "a failover")
    assert ids_of(await world.backlog()) == ["diverted"]


async def test_many_senders_that_wait_all_get_through(world: World) -> None:
    """P6: sends that came in during the interval are all diverted, once each."""
    queue = world.queue()
    client = await world.pair(failover_interval=1)
    texts = [f"m-{number}" for number in range(12)]
    async with client.get_queue_sender(queue) as sender:
        await sender.send_messages(message("before"))
        world.way.refuse()
        await asyncio.gather(*(sender.send_messages(message(text)) for text in texts))
    assert_once_each(texts, await world.backlog())


def test_the_table_says_what_counts() -> None:
    """P7: the verdict of each kind of failure."""
    counts = {
        *(FailureKind.TIMEOUT, FailureKind.CONNECTION, FailureKind.COMMUNICATION),
        *(FailureKind.SERVICE, FailureKind.NOT_FOUND, FailureKind.DISABLED),
        *(FailureKind.QUOTA, FailureKind.STORE),
    }
    assert {kind for kind in VERDICTS if VERDICTS[kind] is Verdict.COUNTS} == counts
    assert VERDICTS[FailureKind.BUSY] is Verdict.WAIT
    raised = {kind for kind in VERDICTS if VERDICTS[kind] is Verdict.RAISE}
    assert raised == {
        *(FailureKind.AUTHENTICATION, FailureKind.AUTHORIZATION),
        *(FailureKind.TOO_LARGE, FailureKind.MESSAGE, FailureKind.ARGUMENT),
    }


@pytest.mark.parametrize("fault", ["refuse", "black_hole", "freeze"])
async def test_a_lost_way_counts(world: World, fault: str) -> None:
    """P7: refused, silent and frozen ways all fail over, for open and new senders."""
    queue = world.queue()
    client = await world.pair(**HASTY)
    async with client.get_queue_sender(queue) as sender:
        await sender.send_messages(message("before"))
        getattr(world.way, fault)()
        lap = timed()
        await sender.send_messages(message("during"))
        assert lap() < 8.0
        async with client.get_queue_sender(queue) as other:
            await other.send_messages(message("other"))
    assert ids_of(await world.backlog()) == ["during", "other"]


@pytest.mark.parametrize("fault", ["refuse", "black_hole"])
async def test_a_way_that_was_never_open_counts(world: World, fault: str) -> None:
    """P7: a primary that is away from a sender's first message on is noticed too."""
    queue = world.queue()
    client = await world.pair(**HASTY)
    getattr(world.way, fault)()
    async with client.get_queue_sender(queue) as sender:
        await sender.send_messages(message("during"))
    assert ids_of(await world.backlog()) == ["during"]


async def test_a_killed_primary_counts(world: World) -> None:
    """P7, A5: the process dies under an open sender."""
    queue = world.queue()
    client = await world.pair()
    async with client.get_queue_sender(queue) as sender:
        await sender.send_messages(message("before"))
        world.primary.kill()
        await sender.send_messages(numbered("m", 3))
    assert ids_of(await world.backlog()) == ["m-0", "m-1", "m-2"]
    await world.primary.start()
    assert ids_of(await world.at_primary.has(queue, 1)) == ["before"]


async def test_a_frozen_primary_is_noticed(world: World) -> None:
    """P7: attempts are bounded by a time-out of their own (SIGSTOP)."""
    queue = world.queue()
    client = await world.pair(**HASTY)
    async with client.get_queue_sender(queue) as sender:
        await sender.send_messages(message("before"))
        world.primary.freeze()
        lap = timed()
        await sender.send_messages(message("during"))
        assert lap() < 8.0
    assert ids_of(await world.backlog()) == ["during"]


@pytest.mark.parametrize("status", ["Disabled", "SendDisabled"])
async def test_a_disabled_entity_counts(world: World, status: str) -> None:
    """P7: a non-transient entity error opens the detour too."""
    queue = world.queue()
    # Past the proxy, which would tell a throttled entity from it.
    text = world.primary.connection_string()
    client = await pair_namespace(world.client(text), world.options())
    try:
        world.primary.set_status(queue, status)
        async with client.get_queue_sender(queue) as sender:
            await sender.send_messages(message("during"))
        assert ids_of(await world.backlog()) == ["during"]
    finally:
        await client.close()


async def test_an_entity_that_is_not_there_counts(world: World) -> None:
    """P7: not found is an outage of that entity."""
    missing = world.path("missing")
    client = await world.pair()
    async with client.get_queue_sender(missing) as sender:
        await sender.send_messages(message("during"))
    assert ids_of(await world.backlog()) == ["during"]


async def test_a_refused_key_is_raised_and_never_fails_over(world: World) -> None:
    """P7: authorization is the caller's to mend."""
    queue = world.queue()
    text = world.primary.connection_string(
        world.way.port, rule="listener", key=LISTEN_ONLY_KEY
    )
    client = await pair_namespace(world.client(text), world.options())
    try:
        async with client.get_queue_sender(queue) as sender:
            for _ in range(3):
                with pytest.raises(
                    (ServiceBusAuthorizationError, ServiceBusAuthenticationError)
                ):
                    await sender.send_messages(message("refused"))
    finally:
        await client.close()
    assert await world.backlog() == []
    assert world.told(EventKind.DIVERTED) == []


async def test_a_message_that_is_too_large_is_raised(world: World) -> None:
    """P7: an error about the message itself is no reason to fail over."""
    queue = world.queue()
    client = await world.pair(failover_interval=0)
    async with client.get_queue_sender(queue) as sender:
        with pytest.raises(MessageSizeExceededError):
            await sender.send_messages(message("large", subject="x" * 300_000))
        await sender.send_messages(message("small"))
    assert ids_of(await world.at_primary.has(queue, 1)) == ["small"]
    assert await world.backlog() == []


async def test_a_session_queue_refuses_a_message_without_session(world: World) -> None:
    """P7: so is one that the entity's settings do not allow."""
    queue = world.queue(requires_session=True)
    client = await world.pair(failover_interval=0)
    async with client.get_queue_sender(queue) as sender:
        with pytest.raises((ServiceBusError, ValueError)):
            await sender.send_messages(message("no session"))
        await sender.send_messages(message("good", session_id="s"))
    assert await world.backlog() == []


async def test_a_throttled_primary_is_waited_for(world: World) -> None:
    """P7, A2: server busy is waited out and sent again to the primary."""
    queue = world.queue()
    client = await world.pair(failover_interval=0.3, busy_wait=1)
    async with client.get_queue_sender(queue) as sender:
        world.primary.set_status(queue, "SendDisabled")
        lap = timed()
        waiting = asyncio.create_task(sender.send_messages(message("patient")))
        # Much longer than the failover interval, and no failover.
        done, _ = await asyncio.wait({waiting}, timeout=2.5)
        assert not done
        world.primary.set_status(queue, "Active")
        await waiting
        assert lap() < 8
    assert ids_of(await world.at_primary.has(queue, 1)) == ["patient"]
    assert await world.backlog() == []
    assert world.told(EventKind.DIVERTED) == []


async def test_callers_of_a_busy_server_wait_ten_seconds_by_default(
    world: World,
) -> None:
    """A2, P7: at least 10 seconds, each for itself: one attempt and no more."""
    queue = world.queue()
    client = await world.pair(busy_wait=10)
    async with client.get_queue_sender(queue) as sender:
        await sender.send_messages(message("before"))
        world.primary.set_status(queue, "SendDisabled")
        waiting = asyncio.create_task(sender.send_messages(message("patient")))
        await asyncio.wait({waiting}, timeout=1.5)
        seen = (world.way.client_bytes, world.way.connection_count)
        world.primary.set_status(queue, "Active")
        done, _ = await asyncio.wait({waiting}, timeout=3)
        assert not done, "it was sent again before ten seconds were over"
        assert seen == (world.way.client_bytes, world.way.connection_count)
        await asyncio.wait_for(waiting, 15)
    assert ids_of(await world.at_primary.has(queue, 2)) == ["before", "patient"]


async def test_a_verdict_is_a_setting(world: World) -> None:
    """P7: an application may have a kind judged otherwise."""
    missing = world.path("missing")
    raising = {FailureKind.NOT_FOUND: Verdict.RAISE}
    client = await world.pair(verdicts=raising)
    async with client.get_queue_sender(missing) as sender:
        with pytest.raises(ServiceBusError):
            await sender.send_messages(message("raised"))
    assert await world.backlog() == []


async def test_after_failover_nothing_but_pings_goes_to_the_primary(
    world: World,
) -> None:
    """P8: sends to the primary stop; each later send is as fast as the secondary."""
    queue = world.queue()
    client = await world.pair(ping_primary_interval=60, attempt_timeout=10)
    world.way.black_hole()
    async with client.get_queue_sender(queue) as sender:
        await sender.send_messages(message("first"))
        lap = timed()
        for number in range(20):
            await sender.send_messages(message(f"m-{number}"))
        # One attempt at the primary would take ten seconds.
        assert lap() < 9.9
    assert len(await world.backlog()) == 21


async def test_senders_spread_over_the_backlog_queues(world: World) -> None:
    """P8: each sender chooses a backlog queue at random, and stays with it."""
    queue = world.queue()
    client = await world.pair(backlog_queue_count=4, attempt_timeout=20)
    world.way.refuse()

    async def send_twice(number: int) -> None:
        sender = client.get_queue_sender(queue)
        await sender.send_messages(message(f"{number}-a"))
        await sender.send_messages(message(f"{number}-b"))

    await asyncio.gather(*(send_twice(number) for number in range(12)))
    places = [
        ids_of(await world.at_secondary.peeked(world.backlog_path(index)))
        for index in range(4)
    ]
    # All twelve into one of four: once in four million runs.
    assert len([place for place in places if place]) > 1
    assert sum(map(len, places)) == 24
    for place in places:
        firsts = {name.partition("-")[0] for name in place if name.endswith("a")}
        seconds = {name.partition("-")[0] for name in place if name.endswith("b")}
        assert firsts == seconds, "a sender changes its backlog queue without need"


async def test_a_backlog_queue_that_fails_is_left_for_another(world: World) -> None:
    """P8: it is out of rotation for all senders of the pair, and tried again later."""
    queue = world.queue()
    client = await world.pair(
        backlog_queue_count=2, backlog_retry_interval=2, attempt_timeout=20
    )
    world.way.refuse()
    world.secondary.set_status(world.backlog_path(0), "SendDisabled")

    async def send(text: str) -> None:
        await client.get_queue_sender(queue).send_messages(message(text))

    await asyncio.gather(*(send(f"m-{number}") for number in range(7)))
    await world.hears(EventKind.BACKLOG_QUEUE_OUT)
    assert len(await world.at_secondary.peeked(world.backlog_path(1))) == 7
    out = {event.queue for event in world.told(EventKind.BACKLOG_QUEUE_OUT)}
    assert out == {world.backlog_path(0)}
    world.secondary.set_status(world.backlog_path(0), "Active")

    async def is_used_again() -> bool:
        async with client.get_queue_sender(queue) as late:
            await late.send_messages(message("late"))
        return bool(await world.at_secondary.peeked(world.backlog_path(0)))

    await eventually(is_used_again, "the backlog queue back in rotation")


async def test_with_no_backlog_queue_left_the_send_fails(world: World) -> None:
    """P8: with the error, when the caller's time ends."""
    queue = world.queue()
    client = await world.pair(backlog_queue_count=2, backlog_retry_interval=30)
    world.way.refuse()
    world.secondary_way.refuse()
    async with client.get_queue_sender(queue) as sender:
        lap = timed()
        with pytest.raises(ServiceBusError, match="none of the 2 backlog queues"):
            await sender.send_messages(message("nowhere"), timeout=8)
        assert lap() < 20
    assert await world.backlog() == []


async def test_a_secondary_that_was_away_for_a_moment_is_waited_for(
    world: World,
) -> None:
    """P8: a send with time left tries again, however long a queue is out otherwise."""
    queue = world.queue()
    client = await world.pair(backlog_queue_count=2, backlog_retry_interval=300)
    world.way.refuse()
    world.secondary_way.refuse()
    async with client.get_queue_sender(queue) as sender:
        sending = asyncio.create_task(
            sender.send_messages(message("waits"), timeout=60)
        )
        await world.hears(EventKind.BACKLOG_QUEUE_OUT, count=2)
        world.secondary_way.heal()
        await sending
    assert ids_of(await world.backlog()) == ["waits"]


async def test_health_is_shared_by_the_senders_of_a_pair(world: World) -> None:
    """P8: a new sender of an entity that has failed over diverts at once."""
    queue = world.queue()
    client = await world.pair(ping_primary_interval=60, attempt_timeout=10)
    world.way.black_hole()
    async with client.get_queue_sender(queue) as first:
        await first.send_messages(message("first"))
    # Opening a link to the secondary is all that it may take, not an attempt.
    lap = timed()
    second = client.get_queue_sender(queue)
    await second.send_messages(message("second"))
    assert lap() < 9.9
    assert ids_of(await world.backlog()) == ["first", "second"]


async def test_a_topic_fails_over_as_a_queue_does(world: World) -> None:
    """P8: topics are covered."""
    topic = world.topic("all")
    client = await world.pair()
    async with client.get_topic_sender(topic) as sender:
        await sender.send_messages(message("before"))
        world.way.refuse()
        await sender.send_messages(message("during"))
    assert ids_of(await world.backlog()) == ["during"]
    assert ids_of(await world.at_primary.has(f"{topic}/Subscriptions/all", 1)) == [
        "before"
    ]
