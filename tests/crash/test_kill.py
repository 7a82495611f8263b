"""`kill -9` under load: everything confirmed is there, and nothing else.

A seed is one data folder and several kills of its bus, at moments that the seed picks.
After each the bus is started again on the same port, and the auditor counts.
TWINBUS_CRASH_ROUNDS is the total number of kills.
"""

import asyncio
import os
from pathlib import Path
from random import Random

import pytest

from crash import messages
from crash.aims import AIMS
from crash.ledger import Ledger, Place
from crash.load import CONFIG, DRAIN, DRAIN_CREDIT, QUEUE, Load
from crash.server_process import ServerProcess
from twinbus.client import ClientConnection, RequestFailed

ROUNDS = int(os.environ.get("TWINBUS_CRASH_ROUNDS", "8"))
KILLS_PER_SEED = 4
SEEDS = -(-ROUNDS // KILLS_PER_SEED)


async def audit(connection: ClientConnection, ledger: Ledger, drained: Ledger) -> None:
    """Nothing lost, nothing twice, nothing back."""
    found = await messages.peek_all(connection, QUEUE)
    found += await messages.peek_all(connection, QUEUE + messages.DEAD_LETTERS)
    ledger.audit(found)
    found = await messages.peek_all(connection, DRAIN)
    drained.audit(found, lost_in_hand_over=DRAIN_CREDIT)


async def expect_lost_locks(
    connection: ClientConnection, ledger: Ledger, load: Load
) -> None:
    """A lock of before the crash settles nothing, not even of its own message."""
    for _, token in load.held[-20:]:
        with pytest.raises(RequestFailed) as refusal:
            await messages.complete_by_token(connection, QUEUE, token)
        assert refusal.value.status == 410
        assert refusal.value.description == "com.microsoft:message-lock-lost"


async def expect_rising_numbers(
    connection: ClientConnection, ledger: Ledger, name: str
) -> None:
    """Not even the numbers of messages that are gone are given again."""
    before = ledger.highest_number
    ledger.sending([name], "probe")
    sender = await connection.sender(QUEUE)
    await sender.send(messages.named(name))
    ledger.accepted([name])
    for item in (await messages.peek_all(connection, QUEUE))[-1:]:
        assert (item.name, item.place) == (name, Place.ACTIVE)
        assert item.number > before


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_what_was_confirmed_outlives_a_kill(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    ledger, drained = Ledger(), Ledger()
    with ServerProcess(tmp_path, CONFIG) as server:
        await server.start()
        for kill in range(KILLS_PER_SEED):
            load = Load(server, ledger, drained, random)
            aim = AIMS[(seed * KILLS_PER_SEED + kill) % len(AIMS)]
            async with asyncio.TaskGroup() as group:
                group.create_task(load.run())
                group.create_task(aim(server, load, random))
            await server.start()
            async with await server.connect() as connection:
                await audit(connection, ledger, drained)
                await expect_lost_locks(connection, ledger, load)
                await expect_rising_numbers(connection, ledger, f"probe-{kill}")
                await audit(connection, ledger, drained)
        assert "Traceback" not in server.errors
    assert ledger.settled_count() > 0
    assert drained.settled_count() > 0
