"""SB-B-02xx: bursts and competing receivers: the bus buffers, receivers share.

A burst waits for receivers that come later. Twenty receivers with the same demand get
about the same number of messages; none is lost or delivered twice. The large numbers
use our own client, which is faster than the SDK.
"""

import asyncio
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from azure.servicebus import ServiceBusMessage

from twinbus.amqp.messaging import Data, Message, Properties, encode_message
from twinbus.amqp.sasl import plain
from twinbus.client import connect

from .inspection import active_count
from .sdk import texts_of

RECEIVERS = 20
BURST = 100_000
FAIR_FACTOR = 2.0
"""No receiver gets more than this many times an even share, or less than its
inverse."""


def _connect(bus):
    return connect("127.0.0.1", bus.port, sasl=plain(bus.key_name, bus.key))


def _payload(number):
    """A message whose body is its number."""
    return encode_message(
        Message(properties=Properties(), body=Data((b"%08d" % number,)))
    )


async def _send(bus, queue, count):
    async with await _connect(bus) as connection:
        sender = await connection.sender(queue)
        for start in range(0, count, 5_000):
            end = min(count, start + 5_000)
            await sender.send_many([_payload(number) for number in range(start, end)])


async def _drain(connection, queue, *, credit, seen, wanted):
    """Receive and complete until all receivers together have seen enough."""
    receiver = await connection.receiver(queue, credit=credit)
    count = 0
    while len(seen) < wanted:
        batch = await receiver.receive_batch(credit, timeout_seconds=0.5)
        if not batch:
            continue
        for delivery in batch:
            seen[bytes(delivery.payload[-8:])] += 1
        count += len(batch)
        first, last = batch[0].delivery_id, batch[-1].delivery_id
        await receiver.settle_confirmed(first, last)
    return count


async def _drain_with(bus, queue, receiver_count, *, credit, wanted):
    """What each of so many receivers got, and how often each message was seen."""
    seen = Counter()
    connections = [await _connect(bus) for _ in range(receiver_count)]
    try:
        counts = await asyncio.gather(
            *(
                _drain(connection, queue, credit=credit, seen=seen, wanted=wanted)
                for connection in connections
            )
        )
    finally:
        for connection in connections:
            await connection.close()
    return counts, seen


def _assert_fair(counts, total):
    even = total / len(counts)
    assert max(counts) <= even * FAIR_FACTOR, sorted(counts)
    assert min(counts) >= even / FAIR_FACTOR, sorted(counts)


@pytest.mark.timeout(300)
def test_burst_waits_and_is_drained(bus, make_queue):
    """SB-B-0201 a burst of 100,000 waits while nobody receives, and is drained in
    order, each message once."""
    queue = make_queue()
    asyncio.run(_send(bus, queue, BURST))
    assert active_count(bus, queue) == BURST
    order = []
    seen = asyncio.run(_drain_in_order(bus, queue, order))
    assert seen == BURST
    assert order == sorted(order)
    assert active_count(bus, queue) == 0


async def _drain_in_order(bus, queue, order):
    seen = Counter()
    async with await _connect(bus) as connection:
        receiver = await connection.receiver(queue, credit=2_000)
        while len(seen) < BURST:
            batch = await receiver.receive_batch(2_000, timeout_seconds=20)
            assert batch, f"the rest of {BURST} does not come after {len(seen)}"
            order += [bytes(delivery.payload[-8:]) for delivery in batch]
            seen.update(order[-len(batch) :])
            first, last = batch[0].delivery_id, batch[-1].delivery_id
            await receiver.settle_confirmed(first, last)
    assert set(seen.values()) == {1}
    return len(seen)


@pytest.mark.timeout(300)
def test_burst_is_shared_by_twenty_receivers(bus, make_queue):
    """SB-B-0202 twenty receivers drain a burst: nothing lost, nothing twice, and none
    gets more than twice, or less than half of, an even share."""
    queue = make_queue()
    total = 20_000
    asyncio.run(_send(bus, queue, total))
    counts, seen = asyncio.run(
        _drain_with(bus, queue, RECEIVERS, credit=50, wanted=total)
    )
    assert len(seen) == total
    assert set(seen.values()) == {1}
    _assert_fair(counts, total)


@pytest.mark.timeout(300)
def test_messages_that_arrive_are_shared_as_they_come(bus, make_queue):
    """SB-B-0203 receivers that wait with credit share what comes in small portions."""
    queue = make_queue()
    total = 4_000

    async def work():
        draining = asyncio.create_task(
            _drain_with(bus, queue, RECEIVERS, credit=10, wanted=total)
        )
        await _send(bus, queue, total)
        return await draining

    counts, seen = asyncio.run(work())
    assert len(seen) == total
    assert set(seen.values()) == {1}
    _assert_fair(counts, total)


@pytest.mark.timeout(300)
def test_twenty_receivers_of_the_sdk_share_a_queue(sync_sdk, make_queue):
    """SB-B-0204 twenty receivers of the SDK, each asking for five at a time: all get
    work, each message is received once."""
    queue = make_queue()
    total = 600
    texts = [str(number) for number in range(total)]
    sender = sync_sdk.sender(queue)
    receivers = [sync_sdk.receiver(queue) for _ in range(RECEIVERS)]
    sender.send_messages([ServiceBusMessage(text) for text in texts])
    deadline = time.monotonic() + 100
    got = Counter()

    def drain(receiver):
        count = 0
        while len(got) < total:
            assert time.monotonic() < deadline, f"{len(got)} of {total} in time"
            batch = receiver.receive_messages(5, max_wait_time=0.5)
            for message in batch:
                receiver.complete_message(message)
            got.update(texts_of(batch))
            count += len(batch)
        return count

    with ThreadPoolExecutor(RECEIVERS) as pool:
        counts = list(pool.map(drain, receivers))
    assert set(got) == set(texts)
    assert set(got.values()) == {1}
    # The SDK's threads share one interpreter, so shares are not compared closely.
    assert min(counts) > 0


def test_slow_receiver_does_not_hold_up_the_others(bus, make_queue):
    """SB-B-0205 what a receiver does not settle it keeps; the rest goes to others."""
    queue = make_queue()
    total = 1_000

    async def work():
        async with await _connect(bus) as connection:
            slow = await connection.receiver(queue, credit=10)
            await _send(bus, queue, total)
            held = []
            while len(held) < 10:
                held += await slow.receive_batch(10 - len(held), timeout_seconds=10)
            # What it was given beyond that stays with it as well, ten at the most.
            counts, seen = await _drain_with(
                bus, queue, 3, credit=20, wanted=total - 20
            )
            return counts, seen, {bytes(item.payload[-8:]) for item in held}

    counts, seen, held = asyncio.run(work())
    assert len(seen) >= total - 20
    assert not held & seen.keys()
    assert min(counts) > 0
