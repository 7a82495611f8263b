"""Shares of the loop's time: which work waits for the next turn, and in which order."""

import asyncio

from twinbus.owner.turns import Turns


class Watch:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.at = 0

    def now(self) -> int:
        return self.at

    def monotonic(self) -> int:
        return self.at


async def test_a_turn_is_over_when_its_time_is_and_another_follows() -> None:
    watch = Watch()
    turns = Turns(watch)
    assert not turns.is_over()
    watch.at += 4
    assert not turns.is_over()
    watch.at += 1
    assert turns.is_over()
    await asyncio.sleep(0)
    assert not turns.is_over()


async def test_those_who_wait_go_on_in_order_and_share_the_turns() -> None:
    watch = Watch()
    turns = Turns(watch)
    done: list[int] = []

    def work(number: int) -> None:
        done.append(number)
        watch.at += 4
        if len(done) < 12:
            turns.wait(lambda: work(number))

    for number in range(3):
        turns.wait(lambda number=number: work(number))  # type: ignore[misc]
    shares: list[int] = []
    while len(done) < 12:
        before = len(done)
        await asyncio.sleep(0)
        shares.append(len(done) - before)
    assert done == [0, 1, 2] * 4
    assert max(shares) == 2


async def test_requests_that_come_together_are_begun_a_turn_after_the_other() -> None:
    watch = Watch()
    turns = Turns(watch)
    begun: list[tuple[int, int]] = []
    iterations = 0

    async def request(number: int) -> None:
        await turns.begun()
        begun.append((iterations, number))
        watch.at += 50

    tasks = [asyncio.create_task(request(number)) for number in range(5)]
    while not all(task.done() for task in tasks):
        iterations += 1
        await asyncio.sleep(0)
    assert [number for _, number in begun] == list(range(5))
    assert len({iteration for iteration, _ in begun}) == 5


async def test_a_request_is_begun_beside_those_who_use_up_every_turn() -> None:
    watch = Watch()
    turns = Turns(watch)
    done: list[str] = []

    def work() -> None:
        done.append("work")
        watch.at += 10
        turns.wait(work)

    async def request() -> None:
        await turns.begun()
        done.append("request")

    turns.wait(work)
    turns.wait(work)
    watch.at += 10
    request_task = asyncio.create_task(request())
    for _ in range(10):
        await asyncio.sleep(0)
    assert request_task.done()
    # Its place was behind the two, who may both come again before it is heard.
    assert done.index("request") <= 4


async def test_whoever_was_cancelled_keeps_nobody_from_going_on() -> None:
    watch = Watch()
    turns = Turns(watch)
    turns.is_over()
    watch.at += 100
    cancelled = asyncio.create_task(turns.begun())
    other = asyncio.create_task(turns.begun())
    await asyncio.sleep(0)
    cancelled.cancel()
    await other
