"""T11 with several brokers: a receive over HTTP asks all of them. What another broker
has reserved is held for the connection, and given back when it ends."""

import asyncio
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from http_messaging.caller import Caller

from twinbus.auth import sas
from twinbus.config.config import ROOT_KEY_NAME

from . import queues_at
from .conftest import WIDE
from .processes import PATIENCE_SECONDS, Brokers
from .processes import until as until_async

COUNT = 32


def caller(trio: Brokers) -> Caller:
    """A connection to one of three brokers; the system chooses which."""
    token = sas.make(
        resource="http://localhost/",
        key_name=ROOT_KEY_NAME,
        key=trio.root_key,
        expires_at=int((time.time() + 3600) * 1000),
    )
    return Caller(trio.ports[""], token)


@pytest.fixture
def call(trio: Brokers) -> Iterator[Caller]:
    made = caller(trio)
    yield made
    made.close()


def fill(call: Caller, queue: str) -> None:
    """Messages with many keys: each broker has some of them."""
    for number in range(COUNT):
        call.send(queue, str(number).encode(), PartitionKey=str(number))


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(0.05)


def test_t11_all_brokers_are_asked(trio: Brokers, call: Caller) -> None:
    queue = WIDE[0]
    fill(call, queue)
    found: Counter[int] = Counter()
    fragments = set()
    while (answer := call.take(queue, 0)).status == 200:
        found[int(answer.body)] += 1
        fragments.add(answer.broker["SequenceNumber"] >> 48)
    assert answer.status == 204
    assert found == Counter(range(COUNT))
    assert len(fragments) > 6


def test_t11_locked_message_is_settled_wherever_it_is(
    trio: Brokers, call: Caller
) -> None:
    """Also from another connection, which may be to another broker."""
    queue = WIDE[1]
    fill(call, queue)
    other = caller(trio)
    for number in range(COUNT):
        answer = call.lock(queue)
        settling = call if number % 2 else other
        assert settling("POST", answer.lock).status == 200
        assert settling("DELETE", answer.lock).status == 200
        assert settling("DELETE", answer.lock).status == 404
    assert call.lock(queue, 0).status == 204
    other.close()


def test_t11_unlocked_message_comes_back(trio: Brokers, call: Caller) -> None:
    queue = WIDE[2]
    for key in range(8):
        call.send(queue, b"x", PartitionKey=str(key))
        answer = call.lock(queue)
        assert answer.broker["DeliveryCount"] == 1
        assert call("PUT", answer.lock).status == 200
        answer = call.lock(queue)
        assert answer.broker["DeliveryCount"] == 2
        assert call("DELETE", answer.lock).status == 200


def test_t11_message_at_any_broker_ends_the_wait(trio: Brokers, call: Caller) -> None:
    queue = WIDE[3]
    sender = caller(trio)
    for key in range(12):
        call.begin("DELETE", f"/{queue}/messages/head?timeout=60")
        sender.send(queue, str(key).encode(), PartitionKey=str(key))
        answer = call.answer()
        assert (answer.status, answer.body) == (200, str(key).encode())
    sender.close()


@pytest.mark.parametrize("ends", [True, False])
def test_t11_what_is_held_goes_back_as_not_delivered(trio: Brokers, ends: bool) -> None:
    """When the connection ends, or after a second without a request. A receive on
    another connection may find nothing meanwhile."""
    queue = WIDE[4 if ends else 5]
    first, second = caller(trio), caller(trio)
    fill(first, queue)
    # The other brokers reserve one each while this one answers.
    taken = {int(first.lock(queue, 20).body)}
    if ends:
        first.close()
    found: dict[int, int] = {}

    def all_came() -> bool:
        while (answer := second.take(queue, 0)).status == 200:
            found[int(answer.body)] = answer.broker["DeliveryCount"]
        return found.keys() | taken == set(range(COUNT))

    until(all_came)
    assert set(found.values()) == {1}, "what was held was not delivered"
    second.close()
    first.close()


def test_t11_client_that_goes_takes_nothing_anywhere(
    trio: Brokers, call: Caller
) -> None:
    queue = WIDE[6]
    for key in range(6):
        gone = caller(trio)
        gone.begin("POST", f"/{queue}/messages/head?timeout=60")
        gone.socket.shutdown(socket.SHUT_WR)
        assert gone.socket.recv(1) == b"", "its broker has not seen that it goes"
        gone.close()
        call.send(queue, b"x", PartitionKey=str(key))
        answer = call.lock(queue, 20)
        assert answer.broker["DeliveryCount"] == 1
        assert call("DELETE", answer.lock).status == 200


def test_t11_batches_and_refusals_of_other_brokers(trio: Brokers, call: Caller) -> None:
    queue = WIDE[7]
    for key in range(8):
        keyed = {"Body": "b", "BrokerProperties": {"PartitionKey": str(key)}}
        assert call.batch(queue, [keyed, keyed]).status == 201
        bad = {"Body": "b", "BrokerProperties": {"MessageId": "x" * 200}}
        assert call.batch(queue, [keyed, bad]).status == 400
        other = {"Body": "b", "BrokerProperties": {"PartitionKey": f"other {key}"}}
        assert call.batch(queue, [keyed, other]).status == 400
        too_large = b"x" * (256 * 1024)
        answer = call("POST", f"/{queue}/messages", too_large)
        assert answer.status == 403
    assert len(call.bodies(queue)) == 16
    assert call.lock("nothing", 0).status == 410
    token = "ffff0000-0000-0000-0000-000000000000"
    assert call("DELETE", f"/{queue}/messages/1/{token}").status == 404


async def test_conventional_entities_of_other_brokers(trio: Brokers) -> None:
    """Whichever broker a connection leads to: one of six is not the owner's."""
    await trio.make("1", "queue", "plain", max_delivery_count=1)
    for name in "123":
        await until_async(lambda name=name: queues_at.finds_all(trio, name, "plain"))
    await asyncio.to_thread(_use_plain_queue, trio)


def _use_plain_queue(trio: Brokers) -> None:
    callers = [caller(trio) for _ in range(6)]
    for number, call in enumerate(callers):
        body = str(number).encode()
        call.send("plain", body, {"Priority": '"High"'}, Label="L")
        following = callers[(number + 1) % 6]
        answer = following.lock("plain")
        assert (answer.body, answer.broker["Label"]) == (body, "L")
        assert call.lock("plain", 0).status == 204
        assert call("POST", answer.lock).status == 200
        # Delivered once, and that was the limit.
        assert call("PUT", answer.lock).status == 200
        assert following("PUT", answer.lock).status == 404
        assert call.take("plain/$deadletterqueue").body == body
    for call in callers:
        call.close()
