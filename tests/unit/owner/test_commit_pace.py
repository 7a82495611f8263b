"""Commits of several stores follow each other, for a moment."""

import asyncio

from twinbus.owner.commit_pace import CommitPace


async def begun(pace: CommitPace) -> bool:
    """Whether a commit can begin without waiting for anything but the loop."""
    task = asyncio.create_task(pace.begin())
    for _ in range(3):
        await asyncio.sleep(0)
    if task.done():
        return True
    task.cancel()
    return False


async def test_a_commit_begins_at_once_if_no_other_store_commits() -> None:
    pace = CommitPace()
    assert await begun(pace)
    pace.end()
    assert await begun(pace)


async def test_a_commit_waits_for_that_of_another_store() -> None:
    pace = CommitPace()
    await pace.begin()
    second = asyncio.create_task(pace.begin())
    third = asyncio.create_task(pace.begin())
    await asyncio.sleep(0)
    assert not second.done()
    pace.end()
    await second
    assert not third.done()
    pace.end()
    await third


async def test_a_slow_store_does_not_hold_up_others() -> None:
    pace = CommitPace()
    await pace.begin()
    async with asyncio.timeout(10):
        await pace.begin()
        await pace.begin()


async def test_who_does_not_wait_any_more_takes_no_turn() -> None:
    pace = CommitPace()
    await pace.begin()
    assert not await begun(pace)
    third = asyncio.create_task(pace.begin())
    await asyncio.sleep(0)
    pace.end()
    async with asyncio.timeout(10):
        await third
