"""Which engine moves the backlog; it works for strict buses, too."""

from typing import Any

import pytest
from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.aio.management import ServiceBusAdministrationClient

from twinbus.clock import SystemClock
from twinbus.pairing.detour import RESTORED_FROM
from twinbus.pairing.sdk_syphon.engine import sdk_engine_of_strings
from twinbus.pairing.syphon.errors import PrimaryAway, SecondaryError
from twinbus.pairing.syphon.ports import Engine
from twinbus.pairing.syphon.syphon import Syphon
from twinbus.pairing.syphon_engines import engine_of_clients, engine_of_strings
from twinbus.testing import Bus

from .syphon_world import (
    BACKLOG,
    PRIMARY,
    QUICK,
    bodies,
    counts,
    diverted,
    put,
    running,
    stored,
    until,
)


async def chosen(primary: Bus, secondary: Bus) -> Engine[Any]:
    return await engine_of_strings(
        primary.connection_string,
        secondary.connection_string,
        SystemClock(),
        authority=str(secondary.ca_file),
    )


async def test_two_twinbus_namespaces_need_no_sdk(primary: Bus, secondary: Bus) -> None:
    engine = await chosen(primary, secondary)
    assert engine.name == "twinbus"
    await engine.close()


async def test_our_own_engine_speaks_tls(primary: Bus, secondary: Bus) -> None:
    text = secondary.connection_string.replace("UseDevelopmentEmulator=true", "")
    engine = await engine_of_strings(
        primary.connection_string,
        text,
        SystemClock(),
        authority=str(secondary.ca_file),
    )
    assert engine.name == "twinbus"
    await put(secondary, BACKLOG, [diverted("orders", "one")])
    async with running(Syphon(engine, PRIMARY, QUICK)):
        assert await bodies(primary, "orders", 1) == ["one"]


@pytest.mark.parametrize("strict_side", ["primary", "secondary"])
async def test_a_strict_side_is_served_by_the_sdk(strict_side: str) -> None:
    strict = {strict_side: {"strict": True}}
    with (
        Bus(store="memory", settings=strict.get("primary")) as primary,
        Bus(store="memory", tls=True, settings=strict.get("secondary")) as secondary,
    ):
        primary.create_queue("orders")
        secondary.create_queue(BACKLOG)
        sent = [diverted("orders", f"{number}") for number in range(20)]
        await put(secondary, BACKLOG, sent)
        engine = await chosen(primary, secondary)
        assert engine.name == "azure-servicebus"
        async with running(Syphon(engine, PRIMARY, QUICK)):
            found = await bodies(primary, "orders", 20)
            assert found == [str(number) for number in range(20)]
            await until(lambda: counts(secondary, BACKLOG) == (0, 0, 0))


async def test_both_engines_write_the_same_into_the_ledger(
    primary: Bus, secondary: Bus
) -> None:
    told = []
    for queue in ("one", "two"):
        primary.create_queue(queue)
    engines = (
        await chosen(primary, secondary),
        sdk_engine_of_strings(
            primary.connection_string,
            secondary.connection_string,
            SystemClock(),
            authority=str(secondary.ca_file),
        ),
    )
    for queue, engine in zip(("one", "two"), engines, strict=True):
        await put(secondary, BACKLOG, [diverted(queue)])
        async with running(Syphon(engine, PRIMARY, QUICK)):
            await until(lambda at=queue: counts(primary, at)[0] == 1)
            await until(lambda: counts(secondary, BACKLOG) == (0, 0, 0))
        annotations = stored(primary, queue).message_annotations or {}
        told.append(str(annotations[RESTORED_FROM]).partition("@"))
    assert [number for number, _, _ in told] == ["1", "2"]
    assert told[0][2] == told[1][2]


async def test_clients_of_the_sdk_get_the_fast_engine_where_there_is_one(
    primary: Bus, secondary: Bus
) -> None:
    clients = [
        ServiceBusClient.from_connection_string(bus.connection_string)
        for bus in (primary, secondary)
    ]
    administration = ServiceBusAdministrationClient.from_connection_string(
        secondary.connection_string, connection_verify=str(secondary.ca_file)
    )
    engine = await engine_of_clients(*clients, administration, SystemClock())
    await put(secondary, BACKLOG, [diverted("orders", "one")])
    async with running(Syphon(engine, PRIMARY, QUICK)) as syphon:
        assert syphon.status().engine == "twinbus"
        assert await bodies(primary, "orders", 1) == ["one"]
    for client in (*clients, administration):
        await client.close()


async def test_a_side_that_does_not_answer_is_named(
    primary: Bus, secondary: Bus
) -> None:
    primary.stop()
    with pytest.raises(PrimaryAway, match=f"localhost:{primary.port}"):
        await chosen(primary, secondary)
    secondary.stop()
    with pytest.raises(SecondaryError, match=f"localhost:{secondary.port}"):
        await chosen(primary, secondary)
