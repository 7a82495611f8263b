"""A broker that dies or freezes is replaced within ten seconds."""

import os
import signal
import sqlite3
from contextlib import closing

import pytest
from crash import messages

from twinbus.client.errors import NotAccepted
from twinbus.store.process_identity import is_running

from .processes import Brokers, until

TAKEOVER_SECONDS = 10.0


async def test_all_stores_are_owned_when_all_brokers_are_ready(
    brokers: Brokers,
) -> None:
    await brokers.start("--brokers=3")
    assert sorted((await brokers.shares()).values()) == [1, 1, 2]


async def test_stores_of_a_killed_broker_are_owned_by_others(
    brokers: Brokers,
) -> None:
    await brokers.start("--brokers=3")
    killed = (await brokers.alive())["1"]
    os.kill(killed.process.pid, signal.SIGKILL)

    async def are_taken() -> bool:
        owned = {
            uuid: epoch
            for one in (await brokers.alive()).values()
            # By its successor, if that one was there first.
            if one.broker_uuid != killed.broker_uuid
            for uuid, epoch in one.stores.items()
        }
        return all(owned.get(uuid, 0) > epoch for uuid, epoch in killed.stores.items())

    await until(are_taken, TAKEOVER_SECONDS)
    # And another one is started in its place, which gets its share.
    await until(lambda: brokers.owns_all("1", "2", "3"))
    assert (await brokers.alive())["1"].broker_uuid != killed.broker_uuid
    assert "broker 1 has ended (signal SIGKILL)" in brokers.log


async def test_frozen_broker_is_replaced_and_cannot_go_on(brokers: Brokers) -> None:
    await brokers.start("--brokers=3")
    frozen = (await brokers.alive())["2"]
    os.kill(frozen.process.pid, signal.SIGSTOP)

    async def is_replaced() -> bool:
        shares = await brokers.shares()
        return not is_running(frozen.process) and sum(shares.values()) == 4

    await until(is_replaced, TAKEOVER_SECONDS)
    with pytest.raises(ProcessLookupError):
        os.kill(frozen.process.pid, signal.SIGCONT)


async def test_frozen_broker_without_a_supervisor_is_killed_by_another(
    brokers: Brokers,
) -> None:
    first = await brokers.start("--join")
    second = await brokers.start("--join")
    names = [f"of process {process.pid}" for process in (first, second)]
    await until(lambda: brokers.owns_all(*names))
    first.send_signal(signal.SIGSTOP)
    await until(lambda: brokers.owns_all(names[1]), TAKEOVER_SECONDS)
    assert first.wait(5) == -signal.SIGKILL
    taken = (await brokers.alive())[names[1]].last_takeover
    assert taken is not None and taken.predecessor == names[0]
    assert "was not heard of for a term" in brokers.log


async def test_broker_that_lost_a_store_goes_on_with_the_others(
    brokers: Brokers,
) -> None:
    """As when it could not be killed: another process has taken the lease."""
    await brokers.start("--join")
    (name,) = await brokers.alive()
    await brokers.ask(name, "create-queue", path="q", properties="{}")
    await brokers.ask(name, "create-queue", path="other", properties="{}")
    lost = await _store_with(brokers, "q")
    assert await _store_with(brokers, "other") != lost
    with closing(sqlite3.connect(lost)) as db, db:
        db.execute("UPDATE lease SET epoch = epoch + 1")
    async with await brokers.connect(name) as connection:
        sender = await connection.sender("q")
        with pytest.raises(NotAccepted):
            await sender.send(messages.named("refused"))
        assert "has been taken over by another process" in brokers.log
        other = await connection.sender("other")
        await other.send(messages.named("kept"))
    # It takes the store again, and finds nothing of what was refused.
    await until(lambda: brokers.owns_all(name))
    async with await brokers.connect(name) as connection:
        assert await messages.peek_all(connection, "q") == []
        assert len(await messages.peek_all(connection, "other")) == 1


async def _store_with(brokers: Brokers, path: str) -> str:
    """The file that has the entity."""
    for file in brokers.stores:
        with closing(sqlite3.connect(file)) as db:
            rows = db.execute("SELECT definition FROM entity").fetchall()
        if any(f'"path": "{path}"' in definition for (definition,) in rows):
            return str(file)
    raise AssertionError(path)
