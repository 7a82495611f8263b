"""Two namespaces by the vendor's SDK: the same queue in both, at every door."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from azure.core.exceptions import ClientAuthenticationError
from azure.servicebus import ServiceBusClient, ServiceBusMessage, TransportType
from azure.servicebus.exceptions import (
    ServiceBusAuthenticationError,
    ServiceBusConnectionError,
    ServiceBusError,
)
from azure.servicebus.management import ServiceBusAdministrationClient
from http_messaging.caller import Caller

from twinbus.testing import Bus, hurried_sdk
from twinbus.testing.bus_namespace import BusNamespace

from .management import sas_token

QUEUE = "orders"
# The SDK does not close the socket of a connection that was refused.
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture(scope="module")
def bus() -> Iterator[Bus]:
    with Bus(tls=True) as running, hurried_sdk():
        running.create_queue(QUEUE)
        yield running


@pytest.fixture
def shop(bus: Bus) -> Iterator[BusNamespace]:
    with bus.namespace("shop") as made:
        made.create_queue(QUEUE)
        yield made


def by_host(bus: Bus, name: str, key: str) -> tuple[str, dict[str, Any]]:
    """As people reach a namespace whose name is in the DNS: here its address is given
    apart, because names below localhost are not known everywhere."""
    text = (
        f"Endpoint=sb://{name}.example.com;SharedAccessKeyName={bus.key_name};"
        f"SharedAccessKey={key};UseDevelopmentEmulator=true"
    )
    return text, {"custom_endpoint_address": f"sb://localhost:{bus.port}"}


def by_websocket(bus: Bus, name: str, key: str) -> tuple[str, dict[str, Any]]:
    text, options = by_host(bus, name, key)
    return text, {**options, "transport_type": TransportType.AmqpOverWebsocket}


def by_port(bus: Bus, name: str, key: str) -> tuple[str, dict[str, Any]]:
    port = bus.port if name == "twinbus" else bus.namespace(name).port
    text = (
        f"Endpoint=sb://localhost:{port};SharedAccessKeyName={bus.key_name};"
        f"SharedAccessKey={key};UseDevelopmentEmulator=true"
    )
    return text, {}


WAYS = pytest.mark.parametrize("way", [by_host, by_websocket, by_port])


def send(text: str, options: dict[str, Any], body: str) -> None:
    with (
        ServiceBusClient.from_connection_string(text, retry_total=0, **options) as one,
        one.get_queue_sender(QUEUE) as sender,
    ):
        sender.send_messages(ServiceBusMessage(body))


def received(text: str, options: dict[str, Any]) -> list[str]:
    with (
        ServiceBusClient.from_connection_string(text, **options) as client,
        client.get_queue_receiver(QUEUE) as receiver,
    ):
        found = receiver.receive_messages(10, max_wait_time=1)
        for message in found:
            receiver.complete_message(message)
        return [str(message) for message in found]


@WAYS
def test_messages_stay_apart(bus: Bus, shop: BusNamespace, way: Any) -> None:
    default, other = way(bus, "twinbus", bus.key), way(bus, "shop", shop.key)
    send(*default, "for the default one")
    send(*other, "for the shop")
    assert received(*other) == ["for the shop"]
    assert received(*default) == ["for the default one"]


@WAYS
def test_wrong_key_is_refused(bus: Bus, shop: BusNamespace, way: Any) -> None:
    for name, key in (("shop", bus.key), ("twinbus", shop.key)):
        # With another address the SDK has no better name for it.
        with pytest.raises((ServiceBusAuthenticationError, ServiceBusConnectionError)):
            send(*way(bus, name, key), "x")
    for namespace in bus.server.namespaces:
        assert namespace.queue(QUEUE).counts().active == 0


def test_administration_is_that_of_its_namespace(bus: Bus, shop: BusNamespace) -> None:
    def client(text: str) -> ServiceBusAdministrationClient:
        return ServiceBusAdministrationClient.from_connection_string(
            text, connection_verify=str(bus.ca_file), retry_total=0
        )

    with client(shop.connection_string) as mine:
        mine.create_queue("only-here")
        assert [one.name for one in mine.list_queues()] == ["only-here", QUEUE]
        assert mine.get_namespace_properties().name == "shop"
    with client(bus.connection_string) as default:
        assert [one.name for one in default.list_queues()] == [QUEUE]
    with client(shop.connection_string.replace(shop.key, bus.key)) as wrong:
        with pytest.raises(ClientAuthenticationError):
            wrong.get_queue(QUEUE)


def test_messages_over_http(bus: Bus, shop: BusNamespace) -> None:
    def token(key: str) -> str:
        ends_at = bus.now().timestamp() + 600
        return sas_token("http://localhost/", bus.key_name, key, ends_at)

    caller = Caller(bus.port, token(shop.key))
    host = {"Host": "shop.example.com"}
    assert caller("POST", f"/{QUEUE}/messages", b"tea", host).status == 201
    assert caller("POST", f"/{QUEUE}/messages", b"tea").status == 401
    caller.token = token(bus.key)
    assert caller("POST", f"/{QUEUE}/messages", b"tea", host).status == 401
    assert caller("DELETE", f"/{QUEUE}/messages/head?timeout=0").status == 204
    caller.token = token(shop.key)
    taken = caller("DELETE", f"/{QUEUE}/messages/head?timeout=5", b"", host)
    assert (taken.status, taken.body) == (200, b"tea")
    caller.close()


def test_transactions_and_send_via_stay_inside(bus: Bus, shop: BusNamespace) -> None:
    shop.create_queue("inner")
    shop.create_queue("forwarding", forward_to="inner")
    bus.create_queue("inner")
    text, options = by_port(bus, "shop", shop.key)
    with (
        ServiceBusClient.from_connection_string(text, **options) as client,
        client.get_queue_sender("forwarding") as sender,
        client.get_queue_receiver("inner") as receiver,
    ):
        sender.send_messages(ServiceBusMessage("x"))
        (found,) = receiver.receive_messages(1, max_wait_time=5)
        receiver.dead_letter_message(found)
    assert shop._served().queue("inner").counts().dead_letter == 1
    counts = bus.server.namespace.queue("inner").counts()
    assert (counts.active, counts.dead_letter) == (0, 0)
    bus.delete_queue("inner")


def test_metrics_name_the_namespace(bus: Bus, shop: BusNamespace) -> None:
    def page(host: str, key: str) -> str:
        ends_at = bus.now().timestamp() + 600
        token = sas_token("http://localhost/", bus.key_name, key, ends_at)
        caller = Caller(bus.port, token)
        found = caller("GET", "/metrics", b"", {"Host": host})
        caller.close()
        assert found.status == 200
        return found.body.decode()

    line = 'twinbus_entity_size_bytes{{entity="orders",kind="queue",namespace="{}"}}'
    everything = page("localhost", bus.key)
    assert line.format("shop") in everything and line.format("twinbus") in everything
    own = page("shop.example.com", shop.key)
    assert line.format("shop") in own and line.format("twinbus") not in own
    shop.remove()
    alone = page("localhost", bus.key)
    assert 'twinbus_entity_size_bytes{entity="orders",kind="queue"}' in alone


def test_restart_keeps_them(bus: Bus, shop: BusNamespace) -> None:
    send(*by_host(bus, "shop", shop.key), "kept")
    bus.restart()
    assert received(*by_port(bus, "shop", shop.key)) == ["kept"]


def test_namespace_that_is_made_again_is_empty(bus: Bus, shop: BusNamespace) -> None:
    send(*by_host(bus, "shop", shop.key), "gone")
    shop.remove()
    again = bus.namespace("shop")
    assert again.key != shop.key
    again.create_queue(QUEUE)
    assert received(*by_port(bus, "shop", again.key)) == []
    with pytest.raises(ServiceBusError):
        send(*by_host(bus, "shop", shop.key), "x")


def test_faults_of_one_namespace_hit_no_other() -> None:
    with Bus(settings={"allow_faults": True}) as bus, hurried_sdk():
        shop = bus.namespace("shop")
        for owner in (bus, shop):
            owner.create_queue(QUEUE)
        caller = Caller.of(bus)
        wanted = {"effect": "refuse", "operations": ["send"], "namespace": "shop"}
        body = json.dumps(wanted).encode()
        assert caller("POST", "/$faults", body).status == 201
        caller.close()
        send(bus.connection_string, {}, "x")
        with pytest.raises(ServiceBusError, match="set for a test"):
            send(shop.connection_string, {}, "x")
