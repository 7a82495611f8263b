"""Signals that are not crashes: freeze and continue, stop under load, start again."""

import asyncio
import signal
from pathlib import Path
from random import Random

from crash import messages
from crash.ledger import Ledger, Place
from crash.load import CONFIG, DRAIN, DRAIN_CREDIT, QUEUE, Load
from crash.server_process import PATIENCE_SECONDS, ServerProcess
from twinbus.cli import exit_codes


async def until_accepted(load: Load, count: int) -> None:
    """Wait until so many messages more were accepted."""
    wanted = load.accepted_count + count
    is_enough = asyncio.Event()

    def on_word(kind: str) -> None:
        if load.accepted_count >= wanted:
            is_enough.set()

    load.on_word = on_word
    async with asyncio.timeout(PATIENCE_SECONDS):
        await is_enough.wait()


async def audit(server: ServerProcess, ledger: Ledger, drained: Ledger) -> None:
    async with await server.connect() as connection:
        found = await messages.peek_all(connection, QUEUE)
        found += await messages.peek_all(connection, QUEUE + messages.DEAD_LETTERS)
        ledger.audit(found)
        drained.audit(
            await messages.peek_all(connection, DRAIN), lost_in_hand_over=DRAIN_CREDIT
        )


async def test_a_frozen_bus_goes_on_where_it_was(tmp_path: Path) -> None:
    ledger, drained = Ledger(), Ledger()
    with ServerProcess(tmp_path, CONFIG) as server:
        await server.start()
        load = Load(server, ledger, drained, Random(1))
        work = asyncio.create_task(load.run())
        for seconds in (0.2, 1.0):
            await until_accepted(load, 200)
            server.signal(signal.SIGSTOP)
            await asyncio.sleep(seconds)
            server.signal(signal.SIGCONT)
        # No client lost its connection, and every one gets on with its work.
        await until_accepted(load, 200)
        assert not work.done()
        server.signal(signal.SIGTERM)
        await work
        assert await server.ended() == exit_codes.OK
        await server.start()
        await audit(server, ledger, drained)
        assert server.errors == ""


async def test_a_frozen_bus_keeps_its_data_folder(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, CONFIG) as server:
        await server.start()
        server.signal(signal.SIGSTOP)
        rival = ServerProcess(tmp_path, CONFIG)
        with rival:
            rival.spawn()
            assert await rival.ended() == exit_codes.IN_USE
        assert f"in use by process {server.pid}" in server.errors
        server.signal(signal.SIGCONT)
        async with await server.connect() as connection:
            sender = await connection.sender(QUEUE)
            await sender.send(messages.named("after all"))


async def test_sigterm_under_load_answers_what_was_accepted(tmp_path: Path) -> None:
    """Twice on one folder and one port; nothing is open between "yes" and "no"."""
    ledger, drained = Ledger(), Ledger()
    with ServerProcess(tmp_path, CONFIG) as server:
        for seed in range(2):
            await server.start()
            load = Load(server, ledger, drained, Random(seed))
            work = asyncio.create_task(load.run())
            await until_accepted(load, 500)
            server.signal(signal.SIGTERM)
            await work
            assert await server.ended() == exit_codes.OK
            await server.start()
            unanswered = ledger.unanswered()
            await audit(server, ledger, drained)
            places = [ledger.stories[name].may_be for name in unanswered]
            assert all(place == {Place.NEVER_ARRIVED} for place in places)
            assert await server.stop() == exit_codes.OK
        assert server.errors == ""
