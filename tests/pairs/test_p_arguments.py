"""Senders of a pair accept the same arguments as those of the SDK: P5."""

from inspect import signature
from typing import Any

import azure.servicebus as sync_package
import azure.servicebus.aio as async_package
import pytest
from azure.servicebus import ServiceBusMessage

from twinbus.pairing import pair_namespace
from twinbus.testing import Bus

from .faces import Clients, backlog_at, bodies_at, in_thread

# What the SDK says it takes for a sender, with a value for each.
VALUES: dict[str, Any] = {"client_identifier": "mine", "socket_timeout": 5.0}


@pytest.mark.parametrize("package", [sync_package, async_package])
@pytest.mark.parametrize("method", ["get_queue_sender", "get_topic_sender"])
def test_every_argument_of_the_sdk_is_tested(package: Any, method: str) -> None:
    """P5: a release of the SDK that takes more is noticed here."""
    parameters = signature(getattr(package.ServiceBusClient, method)).parameters
    named = {name for name, one in parameters.items() if one.kind is one.KEYWORD_ONLY}
    assert named == set(VALUES)


async def test_arguments_reach_the_links_of_both_ways(buses: tuple[Bus, Bus]) -> None:
    """P5: the straight way, and the detour."""
    clients = Clients(*buses, asynchronous=True)
    options = clients.options(failover_interval=0)
    async with await pair_namespace(clients.primary, options) as client:
        for get in (client.get_queue_sender, client.get_topic_sender):
            assert get("orders", **VALUES).client_identifier == "mine"
        made: list[dict[str, Any]] = []
        for namespace in (client._pairing.primary, client._pairing.secondary):
            _note_arguments(namespace.client, made)
        async with client.get_queue_sender("orders", **VALUES) as sender:
            await sender.send_messages(ServiceBusMessage("straight"))
            await in_thread(clients.primary_bus.stop)
            with pytest.warns(UserWarning, match="Unsupported keyword args"):
                await sender.send_messages(ServiceBusMessage("diverted"), colour="red")
        assert len(made) >= 2
        assert all(arguments == VALUES for arguments in made)
        await in_thread(clients.primary_bus.start)
    await clients.administration.close()
    assert await in_thread(bodies_at, clients.primary_bus, "orders") == ["straight"]
    assert len(await in_thread(backlog_at, clients.secondary_bus)) == 1


def _note_arguments(client: Any, made: list[dict[str, Any]]) -> None:
    """What senders that are made from now on were asked for with."""
    get = client.get_queue_sender

    def noted(path: str, **arguments: Any) -> Any:
        made.append(arguments)
        return get(path, **arguments)

    client.get_queue_sender = noted


def test_the_synchronous_face_takes_them_as_well(buses: tuple[Bus, Bus]) -> None:
    """P5: and hands them on."""
    clients = Clients(*buses, asynchronous=False)
    with pair_namespace(clients.primary, clients.options()) as client:
        with client.get_queue_sender("orders", **VALUES) as sender:
            assert sender.client_identifier == "mine"
            with pytest.warns(UserWarning, match="Unsupported keyword args"):
                sender.send_messages(ServiceBusMessage("one"), colour="red")
        with client.get_topic_sender("orders", **VALUES) as sender:
            sender.send_messages(ServiceBusMessage("two"))
    clients.administration.close()
    assert bodies_at(clients.primary_bus, "orders") == ["one", "two"]
