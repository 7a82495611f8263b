"""Waiting on a link: every change wakes each waiter once."""

import asyncio

import pytest

from twinbus.client import ClientConnection, LinkClosed


async def test_every_waiter_is_woken_by_one_change(
    connection: ClientConnection,
) -> None:
    sender = await connection.sender("q")
    waiters = [asyncio.create_task(sender.changed()) for _ in range(3)]
    cancelled = asyncio.create_task(sender.changed())
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)
    sender.wake()
    await asyncio.gather(*waiters)


async def test_a_failed_link_says_so_for_ever(connection: ClientConnection) -> None:
    sender = await connection.sender("q")
    assert sender.usable
    sender.on_detached(None)
    assert not sender.usable
    for _ in range(2):
        with pytest.raises(LinkClosed):
            sender.check()
    await sender.close()
