"""Transactions that another broker commits, and what their clients are told."""

import asyncio
from typing import Any, cast

import pytest

from twinbus.amqp.messaging import AmqpValue, Message
from twinbus.broker.commit_listener import CommitListener
from twinbus.broker.home import Home
from twinbus.broker.transaction import Transaction, TransactionLimits
from twinbus.client.errors import ConnectionLost
from twinbus.errors import InternalError, MessageLockLost, ServerBusy, ServiceBusError
from twinbus.links.remote_work import RemoteStep
from twinbus.peers.peers import Peers
from twinbus.peers.transaction_shipping import TransactionShipping

NOW = 1_800_000_000_000


class Owner:
    """The other broker, and the way to it."""

    def __init__(self, *answers: Message | Exception) -> None:
        self._answers = list(answers)
        self.asked: list[dict[str, Any]] = []
        self.is_reached = True

    def address_of(self, home: Home) -> str:
        return "b:1"

    async def reached(self, address: str) -> "Owner":
        if not self.is_reached:
            raise ServerBusy("gone")
        return self

    async def request(
        self, node: str, message: Message, *, timeout_seconds: float
    ) -> Message:
        assert isinstance(message.body, AmqpValue)
        self.asked.append(cast(dict[str, Any], message.body.value))
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def flush(self) -> None:
        pass


class Client(CommitListener):
    """What it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.error: ServiceBusError | None = None
        self.is_committed = False

    def committed(self, items: list[int]) -> None:
        self.is_committed = True

    def failed(self, items: list[int], error: ServiceBusError) -> None:
        self.error = error


def done() -> Message:
    return Message(
        application_properties={"statusCode": 200},
        body=AmqpValue({"transaction": b"there"}),
    )


def refused(condition: str) -> Message:
    return Message(
        application_properties={
            "statusCode": 410,
            "statusDescription": "no",
            "errorCondition": condition,
        },
        body=AmqpValue({}),
    )


async def shipped(owner: Owner, *step_bytes: int) -> Client:
    transaction = Transaction(b"id", NOW, TransactionLimits())
    home, client = Home(), Client()
    for size in step_bytes:
        transaction.enlist(RemoteStep(home, "q", ["send", bytes(size)], size))
    tasks: set[asyncio.Task[None]] = set()
    TransactionShipping(cast(Peers, owner), "client", tasks).commit(
        transaction, 1, client
    )
    await asyncio.gather(*tasks)
    return client


async def test_small_transaction_is_one_request() -> None:
    owner = Owner(done())
    client = await shipped(owner, 10, 10)
    assert client.is_committed
    [asked] = owner.asked
    assert (asked["transaction"], asked["commit"], len(asked["steps"])) == (
        b"",
        True,
        2,
    )


async def test_large_transaction_is_told_in_portions_of_one_transaction() -> None:
    owner = Owner(done(), done(), done())
    client = await shipped(owner, 400_000, 400_000, 400_000)
    assert client.is_committed
    assert [one["commit"] for one in owner.asked] == [False, False, True]
    assert [one["transaction"] for one in owner.asked] == [b"", b"there", b"there"]


async def test_error_of_the_owner_is_a_rollback() -> None:
    client = await shipped(Owner(refused(MessageLockLost.condition)), 10)
    assert isinstance(client.error, MessageLockLost)
    assert not client.is_committed


@pytest.mark.parametrize("lost", [ConnectionLost("lost"), TimeoutError(), OSError()])
async def test_commit_without_an_answer_is_unknown(lost: Exception) -> None:
    client = await shipped(Owner(lost), 10)
    assert isinstance(client.error, InternalError)
    assert "not known" in client.error.text


async def test_loss_before_the_commit_was_asked_for_is_a_rollback() -> None:
    client = await shipped(Owner(TimeoutError()), 400_000, 400_000)
    assert isinstance(client.error, ServerBusy)
    owner = Owner()
    owner.is_reached = False
    assert isinstance((await shipped(owner, 10)).error, ServerBusy)
