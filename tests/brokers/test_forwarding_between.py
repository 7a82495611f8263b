"""Messages on their way from a store of one broker into that of another: each arrives
once, in order, whoever dies meanwhile."""

import asyncio
import os

import pytest
from crash import messages

from twinbus.client.errors import ClientError

from .processes import Brokers, as_json, until
from .queues_at import made_at, names_in

PORTION = 50
KILLED = "213" * int(os.environ.get("TWINBUS_FORWARDING_ROUNDS", "1"))


async def _send(brokers: Brokers, name: str, path: str, names: list[str]) -> None:
    async with await brokers.connect(name) as connection:
        sender = await connection.sender(path)
        await sender.send_many([messages.named(one) for one in names])


async def _forward(brokers: Brokers, path: str, target: str, **more: object) -> None:
    properties = as_json(forward_to=target, **more)
    await brokers.ask("1", "update-entity", path=path, properties=properties)


async def _has(brokers: Brokers, path: str, names: list[str]) -> bool:
    return await names_in(brokers, path) == names


async def test_messages_are_forwarded_over_three_brokers(brokers: Brokers) -> None:
    await brokers.start("--brokers=3")
    for name in "123":
        await made_at(brokers, name, f"q{name}")
    await _forward(brokers, "q1", "q2")
    await _forward(brokers, "q2", "q3")
    names = [f"m{number:04}" for number in range(500)]
    await _send(brokers, "3", "q1", names)
    await until(lambda: _has(brokers, "q3", names))
    assert await names_in(brokers, "q1") == await names_in(brokers, "q2") == []


async def test_forwarding_subscription_is_made_at_another_broker(
    brokers: Brokers,
) -> None:
    """It is in the store of its topic, whose owner forwards."""
    await brokers.start("--brokers=2")
    await brokers.make("1", "topic", "t")
    await made_at(brokers, "2", "q")
    for number, name in enumerate("12"):
        await brokers.ask(
            name,
            "create-subscription",
            path=f"t/Subscriptions/s{number}",
            properties=as_json(forward_to="q"),
        )
    await _send(brokers, "2", "t", ["m1"])
    await until(lambda: _has(brokers, "q", ["m1", "m1"]))


async def test_dead_letters_are_forwarded_to_another_broker(brokers: Brokers) -> None:
    await brokers.start("--brokers=2")
    await made_at(brokers, "1", "q1", max_delivery_count=1)
    await made_at(brokers, "2", "q2")
    properties = as_json(forward_dead_lettered_messages_to="q2")
    await brokers.ask("2", "update-entity", path="q1", properties=properties)
    await _send(brokers, "2", "q1", ["m1"])
    async with await brokers.connect("2") as connection:
        receiver = await connection.receiver("q1", credit=1)
        (message,) = await receiver.receive_batch(1)
        at = message.delivery_id
        # Modified, with a failed delivery: it was delivered as often as it may.
        failed = b"\x00\x53\x27\xc0\x02\x01\x41"
        await receiver.settle_confirmed(at, at, failed)
    await until(lambda: _has(brokers, "q2", ["m1"]))


async def test_what_the_target_refuses_is_a_dead_letter_of_the_source(
    brokers: Brokers,
) -> None:
    await brokers.start("--brokers=2")
    await made_at(brokers, "1", "q1")
    await made_at(brokers, "2", "q2", max_size_in_megabytes=1024)
    await brokers.ask("1", "create-queue", path="q3", properties="{}")
    # The source does not know how full a queue of another broker is; that it wants
    # sessions by the time of the arrival is the same to it.
    await made_at(brokers, "2", "s", requires_session=True)
    await _forward(brokers, "q1", "s")
    await _send(brokers, "1", "q1", ["m1"])
    await until(lambda: _has(brokers, "q1/$DeadLetterQueue", ["m1"]))


class Sending:
    """Sends without a pause, and again what was not acknowledged: the queue drops what
    it has."""

    def __init__(self, brokers: Brokers, path: str) -> None:
        self._brokers = brokers
        self._path = path
        self.names: list[str] = []
        self._is_over = False

    def end(self) -> None:
        self._is_over = True

    async def run(self) -> None:
        while not self._is_over:
            count = len(self.names)
            portion = [f"m{number:06}" for number in range(count, count + PORTION)]
            await until(lambda portion=portion: self._is_sent(portion))
            self.names += portion

    async def _is_sent(self, names: list[str]) -> bool:
        for name in await self._brokers.alive():
            try:
                async with asyncio.timeout(5):
                    await _send(self._brokers, name, self._path, names)
            except (ClientError, OSError, TimeoutError):
                continue
            return True
        return False


@pytest.mark.timeout(90 + 30 * len(KILLED))
async def test_nothing_is_lost_or_doubled_if_brokers_of_the_chain_are_killed(
    brokers: Brokers,
) -> None:
    await brokers.start("--brokers=3")
    await made_at(brokers, "1", "q1", requires_duplicate_detection=True)
    for name in "23":
        await made_at(brokers, name, f"q{name}")
    await _forward(brokers, "q2", "q3")
    await _forward(brokers, "q1", "q2")
    sending = Sending(brokers, "q1")
    task = asyncio.create_task(sending.run())
    for name in KILLED:
        wanted = len(sending.names) + 5 * PORTION

        async def are_sent(wanted: int = wanted) -> bool:
            return len(sending.names) >= wanted

        await until(are_sent)
        await brokers.kill(name)
        await until(lambda: brokers.owns_all("1", "2", "3"))
    sending.end()
    await task

    async def are_all_there() -> bool:
        return len(await names_in(brokers, "q3") or ()) >= len(sending.names)

    await until(are_all_there)
    assert await names_in(brokers, "q3") == sending.names
    assert await names_in(brokers, "q1") == await names_in(brokers, "q2") == []
