"""`kill -9` with sessions: the confirmed state is there, order is kept, locks are gone.

Workers accept sessions, and for each message write its number into the session's state
and then complete it. After a kill the state is the last confirmed or the last requested
one; messages come in order.
"""

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest

from crash import messages
from crash.client_work import KILLS_PER_SEED, SEEDS, killed_amid
from crash.server_process import ServerProcess
from twinbus.amqp.messaging import Data, Message, Properties, encode_message
from twinbus.client import ClientConnection

QUEUE = "sessions"
SESSIONS = ("red", "green", "blue")
CONFIG = f"""
[queues.{QUEUE}]
requires_session = true
lock_duration = "PT5M"
max_delivery_count = 1000
"""
FILTER = "com.microsoft:session-filter"


def numbered(session_id: str, number: int) -> bytes:
    properties = Properties(message_id=f"{session_id}-{number}", group_id=session_id)
    return encode_message(Message(properties=properties, body=Data((b"",))))


def number_of(name: str) -> int:
    return int(name.rpartition("-")[2])


class Books:
    """What is known of one session."""

    def __init__(self) -> None:
        self.sent_count = 0
        self.accepted_count = 0
        # States that the session may have; completed numbers, asked and confirmed.
        self.states: set[bytes | None] = {None}
        self.asked: set[int] = set()
        self.completed: set[int] = set()


class SessionWork:
    """Feeds the sessions, and works on them."""

    def __init__(self, books: dict[str, Books]) -> None:
        self._books = books
        self.has_begun = asyncio.Event()

    async def feed(self, connection: ClientConnection) -> None:
        sender = await connection.sender(QUEUE)
        while True:
            for session_id, books in self._books.items():
                first = books.sent_count
                books.sent_count += 5
                await sender.send_many(
                    [numbered(session_id, first + more) for more in range(5)]
                )
                books.accepted_count = books.sent_count

    def worker(self, session_id: str) -> Any:
        async def work(connection: ClientConnection) -> None:
            await self._work(connection, session_id, self._books[session_id])

        return work

    async def _work(
        self, connection: ClientConnection, session_id: str, books: Books
    ) -> None:
        receiver = await connection.receiver(
            QUEUE, source_filter={FILTER: session_id}, credit=5
        )
        while True:
            for delivery in await receiver.receive_batch(5):
                number = number_of(messages.found(delivery.payload).name)
                state = str(number).encode()
                books.states.add(state)
                body = {"session-id": session_id, "session-state": state}
                await messages.manage(connection, QUEUE, "set-session-state", body)
                books.states = {state}
                books.asked.add(number)
                at = delivery.delivery_id
                await receiver.settle_confirmed(at, at)
                books.completed.add(number)
                self.has_begun.set()


async def audit(
    connection: ClientConnection, session_id: str, books: Books, present: list[int]
) -> None:
    """Of one session, which must be free."""
    assert present == sorted(set(present)), "out of order, or twice"
    assert not set(present) & books.completed, "a completed message is back"
    expected = set(range(books.accepted_count)) - books.asked - set(present)
    assert not expected, f"lost: {expected}"
    receiver = await connection.receiver(
        QUEUE, source_filter={FILTER: session_id}, credit=0
    )
    body = {"session-id": session_id}
    answer = await messages.manage(connection, QUEUE, "get-session-state", body)
    assert answer["session-state"] in books.states
    books.states = {answer["session-state"]}
    await receiver.close()


def settle_the_books(books: Books, present: list[int]) -> None:
    """What was open before the kill is known now."""
    books.completed |= books.asked - set(present)
    books.asked = set(books.completed)
    arrived = [*present, *books.completed]
    # What never arrived is not sent again: numbers go on behind it.
    missing = set(range(books.sent_count)) - set(arrived)
    books.asked |= missing
    books.completed |= missing
    books.accepted_count = books.sent_count


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_sessions_outlive_a_kill_with_their_state(
    tmp_path: Path, seed: int
) -> None:
    random = Random(seed)
    books = {session_id: Books() for session_id in SESSIONS}
    with ServerProcess(tmp_path, CONFIG) as server:
        await server.start()
        for _ in range(KILLS_PER_SEED):
            work = SessionWork(books)
            clients = [work.feed, *(work.worker(session_id) for session_id in SESSIONS)]
            begun = work.has_begun
            async with killed_amid(server, random, begun, *clients) as connection:
                found = await messages.peek_all(connection, QUEUE)
                for session_id, own in books.items():
                    prefix = f"{session_id}-"
                    names = [item.name for item in found]
                    present = [
                        number_of(name) for name in names if name.startswith(prefix)
                    ]
                    await audit(connection, session_id, own, present)
                    settle_the_books(own, present)
        assert "Traceback" not in server.errors
    assert any(own.completed for own in books.values())
