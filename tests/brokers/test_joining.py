"""Brokers that come and go share the stores equally."""

import signal

from twinbus.cli import exit_codes

from .processes import Brokers, until


async def test_broker_that_joins_gets_its_share(brokers: Brokers) -> None:
    await brokers.start("--brokers=2")
    assert sorted((await brokers.shares()).values()) == [2, 2]
    joined = await brokers.start("--join")
    name = f"of process {joined.pid}"
    await until(lambda: brokers.owns_all("1", "2", name))
    # Nothing moves after that.
    before = {n: dict(one.stores) for n, one in (await brokers.alive()).items()}
    beats = {n: one.beat for n, one in (await brokers.alive()).items()}

    async def have_beaten() -> bool:
        now = await brokers.alive()
        return all(now[n].beat >= beats[n] + 3 for n in beats)

    await until(have_beaten)
    assert {n: dict(one.stores) for n, one in (await brokers.alive()).items()} == before


async def test_broker_that_stops_gives_its_stores_back_at_once(
    brokers: Brokers,
) -> None:
    await brokers.start("--brokers=2")
    joined = await brokers.start("--join")
    name = f"of process {joined.pid}"
    await until(lambda: brokers.owns_all("1", "2", name))
    joined.send_signal(signal.SIGTERM)
    await until(lambda: brokers.owns_all("1", "2"), 5)
    assert joined.wait(10) == exit_codes.OK
    assert len(await brokers.announced()) == 2, "it is withdrawn"


async def test_second_bus_without_join_is_refused(brokers: Brokers) -> None:
    await brokers.start("--brokers=2")
    other = brokers.spawn()
    assert other.wait(30) == exit_codes.IN_USE
    assert await brokers.owns_all("1", "2")
