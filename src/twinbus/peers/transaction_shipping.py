"""Has transactions committed by the broker that owns the store they change.

All of the work is told at the discharge, in portions of some hundred kilobytes; the
last one asks for the commit. Until then the other broker has changed nothing, and
whatever goes wrong is a rollback. If the last one is not answered, nobody here knows
whether the transaction was committed, and the client is told so.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from typing import Any, Final

from twinbus.amqp.codec import encode
from twinbus.broker.commit_listener import CommitListener
from twinbus.broker.home import Home
from twinbus.broker.transaction import Transaction
from twinbus.client.connection import ClientConnection
from twinbus.client.errors import NotAccepted
from twinbus.errors import InternalError, ServerBusy, ServiceBusError
from twinbus.links.remote_commits import RemoteCommits
from twinbus.peers.peer_requests import ADDRESS, TRANSACT, answered, peer_request
from twinbus.peers.peers import NO_ANSWER, REQUEST_SECONDS, Peers

_log = logging.getLogger(__name__)

_PORTION_BYTES: Final = 512 * 1024


class TransactionShipping(RemoteCommits):
    """The transactions of one client."""

    def __init__(
        self, peers: Peers, client: str, tasks: set[asyncio.Task[None]]
    ) -> None:
        """`tasks`: those that the client waits for."""
        super().__init__()
        self._peers = peers
        self._client = client
        self._tasks = tasks

    def reaches(self, home: Home) -> bool:
        return self._peers.address_of(home) is not None

    def commit(
        self, transaction: Transaction, item: int, listener: CommitListener
    ) -> None:
        task = asyncio.create_task(self._ship(transaction, item, listener))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ship(
        self, transaction: Transaction, item: int, listener: CommitListener
    ) -> None:
        try:
            address = self._peers.address_of(transaction.home)
            if address is None:
                raise ServerBusy("The broker that has the entity is gone. Try again.")
            steps = [work.shipment() for work in transaction.work()]
            await self._tell(await self._peers.reached(address), steps)
        except ServiceBusError as error:
            listener.failed([item], error)
        except Exception:
            _log.exception("a transaction was not passed on")
            listener.failed([item], unknown_commit())
        else:
            listener.committed([item])
        self._peers.flush()

    async def _tell(
        self, connection: ClientConnection, steps: Sequence[list[object]]
    ) -> None:
        """Raises ServiceBusError; InternalError if the outcome is unknown."""
        txn_id = b""
        portions = list(_portions(steps))
        for number, portion in enumerate(portions):
            asks_to_commit = number == len(portions) - 1
            value = {
                "transaction": txn_id,
                "client": self._client,
                "steps": portion,
                "commit": asks_to_commit,
            }
            try:
                found = await _ask(connection, value)
            except InternalError as error:
                if asks_to_commit:
                    raise
                raise ServerBusy(error.text) from error
            txn_id = found.get("transaction", b"")


async def _ask(connection: ClientConnection, value: dict[str, Any]) -> dict[str, Any]:
    """Raises the error of the other broker, InternalError if it does not answer."""
    message = peer_request(TRANSACT, value)
    try:
        return answered(
            await connection.request(ADDRESS, message, timeout_seconds=REQUEST_SECONDS)
        )
    except NotAccepted as error:
        raise ServerBusy(f"The broker that has the entity refuses: {error}") from error
    except NO_ANSWER as error:
        raise unknown_commit() from error


def _portions(steps: Sequence[list[object]]) -> Iterator[list[list[object]]]:
    portion: list[list[object]] = []
    size_bytes = 0
    for step in steps:
        step_bytes = len(encode(step))
        if portion and size_bytes + step_bytes > _PORTION_BYTES:
            yield portion
            portion, size_bytes = [], 0
        portion.append(step)
        size_bytes += step_bytes
    yield portion


def unknown_commit() -> InternalError:
    """The error for a discharge that the owner did not answer."""
    return InternalError(
        "The broker that commits the transaction did not answer: whether it was "
        "committed is not known. Look whether its messages are still there before you "
        "repeat it; duplicate detection drops what was sent before."
    )
