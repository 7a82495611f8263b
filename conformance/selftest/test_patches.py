"""The patches lead to the server under test, and nowhere else."""

import asyncio
import os

import pytest
from azure.servicebus import ServiceBusClient, TransportType
from azure.servicebus.aio import ServiceBusClient as AsyncServiceBusClient
from azure.servicebus.aio.management import (
    ServiceBusAdministrationClient as AsyncServiceBusAdministrationClient,
)
from azure.servicebus.management import ServiceBusAdministrationClient
from devtools_testutils import get_credential

ELSEWHERE = "fake.servicebus.windows.net"
OVER_WEBSOCKET = {"transport_type": TransportType.AmqpOverWebsocket}


@pytest.fixture(params=[ServiceBusClient, AsyncServiceBusClient])
def client(request):
    return request.param


@pytest.mark.parametrize(
    "namespace", ["localhost:5999", "sb://localhost:5999/", "https://localhost:5999"]
)
def test_clients_keep_the_port_and_speak_plain_amqp(client, namespace):
    made = client(namespace, get_credential())
    assert made.fully_qualified_namespace == "localhost:5999"
    assert made._config.use_tls is False


def test_connection_strings_need_not_name_the_emulator(client):
    made = client.from_connection_string(
        "Endpoint=sb://localhost:5999/;SharedAccessKeyName=a;SharedAccessKey=b"
    )
    assert made._config.use_tls is False


def test_websocket_becomes_amqp_where_there_is_none(client):
    made = client("localhost:5999", get_credential(), **OVER_WEBSOCKET)
    assert made._config.transport_type == TransportType.Amqp


def test_another_namespace_is_left_alone(client):
    made = client(f"{ELSEWHERE}:443", get_credential(), **OVER_WEBSOCKET)
    assert made.fully_qualified_namespace == ELSEWHERE
    assert made._config.use_tls
    assert made._config.transport_type == TransportType.AmqpOverWebsocket


def test_administration_goes_to_the_http_endpoint(namespace):
    text = os.environ["SB_CONNECTION_STRING"]
    with ServiceBusAdministrationClient.from_connection_string(text) as administration:
        assert list(administration.list_queues()) == []
        assert administration.fully_qualified_namespace == "localhost:5999"
    assert len(namespace.requests) == 1


def test_asynchronous_administration_goes_there_too(namespace):
    async def make_and_list():
        credential = get_credential(is_async=True)
        async with AsyncServiceBusAdministrationClient(
            "localhost:5999", credential
        ) as administration:
            await administration.create_topic("t")
            return [topic.name async for topic in administration.list_topics()]

    assert asyncio.run(make_and_list()) == ["t"]


def test_administration_of_another_namespace_is_left_alone():
    other = ServiceBusAdministrationClient(ELSEWHERE, get_credential())
    assert other._impl._client._base_url == "https://{endpoint}"
    assert other._impl._config.endpoint == ELSEWHERE
