"""If one side of a pair ends, the other follows, or is closed."""

import asyncio

import pytest

from twinbus.pairing.faulting import FaultWatch, Side


class Ends:
    """What a watch has asked for."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[tuple[str, Side | None, str]] = asyncio.Queue()

    def watch(self, grace_seconds: float | None) -> FaultWatch:
        return FaultWatch(
            on_both_ended=self._both_ended,
            on_fault=self._fault,
            grace_seconds=grace_seconds,
        )

    async def _both_ended(self) -> None:
        self.heard.put_nowait(("both ended", None, ""))

    async def _fault(self, side: Side, text: str) -> None:
        self.heard.put_nowait(("fault", side, text))


@pytest.mark.parametrize("side", Side)
async def test_the_other_side_is_closed_when_it_does_not_follow(side: Side) -> None:
    ends = Ends()
    ends.watch(0.01).side_ended(side, "The client was closed")
    what, closed, text = await ends.heard.get()
    assert (what, closed) == ("fault", side.other)
    assert text == (
        f"The client was closed, and the {side.other.value} did not follow within 0.01 "
        "seconds: the pair is closed."
    )


async def test_a_side_that_follows_in_time_ends_the_pair_quietly() -> None:
    ends = Ends()
    watch = ends.watch(0.05)
    watch.side_ended(Side.PRIMARY, "closed")
    watch.side_ended(Side.SECONDARY, "closed")
    assert (await ends.heard.get())[0] == "both ended"
    await asyncio.sleep(0.1)
    assert ends.heard.empty()


async def test_the_same_side_twice_is_one_end() -> None:
    ends = Ends()
    watch = ends.watch(0.01)
    watch.side_ended(Side.PRIMARY, "first")
    watch.side_ended(Side.PRIMARY, "second")
    assert (await ends.heard.get())[2].startswith("first")
    assert ends.heard.empty()


async def test_a_disarmed_watch_does_nothing() -> None:
    ends = Ends()
    watch = ends.watch(0.01)
    watch.side_ended(Side.PRIMARY, "closed")
    watch.disarm()
    watch.side_ended(Side.SECONDARY, "closed")
    await asyncio.sleep(0.05)
    assert ends.heard.empty()


async def test_without_a_syphon_nobody_is_faulted() -> None:
    ends = Ends()
    watch = ends.watch(None)
    watch.side_ended(Side.SECONDARY, "closed")
    await asyncio.sleep(0.05)
    assert ends.heard.empty()
    watch.side_ended(Side.PRIMARY, "closed")
    assert (await ends.heard.get())[0] == "both ended"
