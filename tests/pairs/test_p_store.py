"""A pair fails over if the store of its primary is full or failing: P7."""

from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusServerBusyError

from twinbus.pairing import pair_namespace
from twinbus.store.base import CommitFailed, StoreError, StoreFull
from twinbus.testing import Bus

from .faces import Clients, backlog_at, bodies_at, in_thread, until
from .syphon_world import BACKLOG, QUICK, diverted, own_syphon, put, running


def break_store(bus: Bus, error: Exception) -> Any:
    """Nothing is committed from now on; call what is returned to mend it."""
    store: Any = bus.owner.store
    whole = store.commit

    async def commit(changes: Any) -> None:
        raise error

    store.commit = commit

    def mend() -> None:
        store.commit = whole
        # A full store is believed to be full for a while.
        bus.advance(60)

    return mend


@pytest.mark.parametrize("trouble", [StoreFull("no room"), CommitFailed("I/O error")])
async def test_trouble_of_the_store_counts(
    clients: Clients, trouble: StoreError
) -> None:
    """P7: sends are diverted, pings refused, and the entity comes back by itself."""
    options = clients.options(failover_interval=0.5, busy_wait=0.5)
    async with await pair_namespace(clients.primary, options) as client:
        async with client.get_queue_sender("orders") as sender:
            await sender.send_messages(ServiceBusMessage("before"))
            mend = break_store(clients.primary_bus, trouble)
            await sender.send_messages(ServiceBusMessage("during"), timeout=20)
            assert await in_thread(backlog_at, clients.secondary_bus) != []
            entity = client.status().entities[0]
            assert "message store" in entity.last_failure
            await until(lambda: client.status().entities[0].pings > 0)
            assert client.status().entities[0].state == "failed over"
            await in_thread(mend)
            await until(lambda: client.status().entities[0].state != "failed over")
            await sender.send_messages(ServiceBusMessage("after"), timeout=20)
    found = await in_thread(bodies_at, clients.primary_bus, "orders")
    assert found == ["before", "after"]


async def test_an_sdk_without_a_pair_is_told_to_try_again(clients: Clients) -> None:
    """A2: it sees server-busy, as ever, with the reason in its text."""
    break_store(clients.primary_bus, StoreFull("no room"))
    async with clients.primary.get_queue_sender("orders") as sender:
        with pytest.raises(ServiceBusServerBusyError, match="message store is full"):
            await sender.send_messages(ServiceBusMessage("one"))


async def test_a_syphon_leaves_a_failing_store_alone(clients: Clients) -> None:
    """P12, A2: what it could not bring back stays, and comes back later."""
    primary, secondary = clients.primary_bus, clients.secondary_bus
    secondary.create_queue(BACKLOG)
    await put(secondary, BACKLOG, [diverted("orders", "one")])
    mend = break_store(primary, CommitFailed("I/O error"))
    async with running(own_syphon(primary, secondary, QUICK)) as syphon:
        await until(lambda: syphon.status().parked_entities == ("orders",))
        await in_thread(mend)
        await until(lambda: syphon.status().restored == 1)
    assert await in_thread(bodies_at, primary, "orders") == ["one"]
