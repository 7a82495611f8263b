"""The syphon that a server runs, and the lease by which only one of several does."""

import asyncio
from typing import Any

from twinbus.config.pair import PairConfig
from twinbus.testing import Bus

from .syphon_world import (
    BACKLOG,
    PRIMARY,
    backlog,
    bodies,
    counts,
    diverted,
    put,
    until,
)


def paired(primary: Bus, **settings: Any) -> Bus:
    """A server that runs the syphon of this primary."""
    pair = PairConfig(
        primary=primary.connection_string, primary_name=PRIMARY, **settings
    )
    return Bus(store="memory", settings={"pair": pair})


def is_running(bus: Bus) -> bool:
    assert bus.server.pair is not None
    return bus.server.pair.is_running


async def test_a_server_brings_its_own_backlog_back(primary: Bus) -> None:
    with paired(primary, backlog_queue_count=2) as bus:
        await put(bus, backlog(1), [diverted("orders", "one")])
        assert await bodies(primary, "orders", 1) == ["one"]
        # P4.
        queue = bus.server.namespace.entity(BACKLOG).description
        assert (queue.max_size_in_megabytes, queue.lock_duration_ms) == (5120, 60_000)
        assert queue.max_delivery_count == 2_147_483_647
        bus.restart()
        await put(bus, BACKLOG, [diverted("orders", "two")])
        assert await bodies(primary, "orders", 1) == ["two"]


async def test_what_the_pair_does_not_cover_is_dead_lettered(primary: Bus) -> None:
    with paired(primary, cover=("sales*",)) as bus:
        await put(bus, BACKLOG, [diverted("orders", "one")])
        await until(lambda: counts(bus, BACKLOG) == (0, 0, 1))


async def test_one_server_at_a_time_and_another_takes_over(primary: Bus) -> None:
    with Bus(store="memory") as secondary:
        secondary.create_queue(BACKLOG)
        text = secondary.connection_string
        with paired(primary, secondary=text) as first:
            await until(lambda: is_running(first))
            with paired(primary, secondary=text) as second:
                await put(secondary, BACKLOG, [diverted("orders", "one")])
                assert await bodies(primary, "orders", 1) == ["one"]
                assert not is_running(second)
                await asyncio.to_thread(first.stop)
                await until(lambda: is_running(second))
                await put(secondary, BACKLOG, [diverted("orders", "two")])
                assert await bodies(primary, "orders", 1) == ["two"]
                first.start()
                assert is_running(second)


async def test_a_lost_lease_stops_the_syphon(primary: Bus) -> None:
    with Bus(store="memory") as secondary:
        secondary.create_queue(BACKLOG)
        with paired(primary, secondary=secondary.connection_string) as bus:
            await until(lambda: is_running(bus))
            secondary.stop()
            await until(lambda: not is_running(bus))
            secondary.start()
            await until(lambda: is_running(bus))


async def test_a_server_starts_while_the_primary_is_away(primary: Bus) -> None:
    text = primary.connection_string
    primary.stop()
    pair = PairConfig(primary=text, primary_name=PRIMARY)
    with Bus(store="memory", settings={"pair": pair}) as bus:
        await put(bus, BACKLOG, [diverted("orders", "one")])
        assert not is_running(bus)
        primary.start()
        assert await bodies(primary, "orders", 1) == ["one"]


def test_keys_are_in_no_text_of_the_configuration(primary: Bus) -> None:
    pair = PairConfig(primary=primary.connection_string, secondary="SharedAccessKey=x")
    assert "SharedAccessKey" not in repr(pair)
