"""The end of a world with sessions: receives everything, session by session."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from simulator import session_requests
from simulator.life import Life
from simulator.links import ClientSettlement, SimulatedReceiver
from simulator.session_links import SimulatedAccept
from simulator.sighting import Violation

_EVERYTHING: Final = 250
_FIRST_NUMBER: Final = 2_000_000


@asynccontextmanager
async def held_session(
    life: Life, path: str, session_id: str | None
) -> AsyncIterator[SimulatedReceiver | None]:
    """Hold a session for a while; None if there is no next one."""
    queue = life.namespace.entity(path)
    number = _FIRST_NUMBER + len(life.accepts)
    accept = SimulatedAccept(life, queue, session_id, True, number, 5.0)
    life.accepts.append(accept)
    await asyncio.sleep(1)
    accept.give_up()
    receiver = accept.receiver
    yield receiver
    if receiver is not None:
        receiver.leave()
    await asyncio.sleep(1)


async def drain_sessions(life: Life, path: str) -> None:
    """Receive and complete all messages, session by session."""
    while True:
        async with held_session(life, path, None) as receiver:
            if receiver is None:
                return
            life.held.clear()
            receiver.give_credit(_EVERYTHING, False)
            await asyncio.sleep(1)
            for held in list(life.held.values()):
                receiver.settle(held, ClientSettlement(kind="complete"))
            await asyncio.sleep(1)


async def check_states(life: Life, path: str, session_ids: tuple[str, ...]) -> None:
    """Check the states of the sessions."""
    for session_id in session_ids:
        async with held_session(life, path, session_id) as receiver:
            if receiver is None:
                raise Violation(f"session {session_id} of {path} can't be accepted")
            await session_requests.get_state(life, path, session_id)
    found = await session_requests.list_sessions(life, path)
    life.auditor.sessions.listed(path, found)
