"""Asynchronous twins connect as their originals do."""

import asyncio
import ssl

import azure.servicebus as sync_package
import azure.servicebus.aio as async_package
import pytest
from azure.core.credentials import (
    AccessToken,
    AzureNamedKeyCredential,
    AzureSasCredential,
)
from azure.servicebus import TransportType
from azure.servicebus.aio.management import (
    ServiceBusAdministrationClient as AsyncAdministrationClient,
)
from azure.servicebus.management import ServiceBusAdministrationClient

from twinbus.pairing.sdk.twins import (
    ThreadedCredential,
    asynchronous_credential,
    is_asynchronous,
    twin_of,
)
from twinbus.sdk_internals.clients import connection_settings, credential_of

HOST = "contoso.servicebus.windows.net"
KEY = f"Endpoint=sb://{HOST};SharedAccessKeyName=name;SharedAccessKey=c2VjcmV0"
TOKEN = f"Endpoint=sb://{HOST};SharedAccessSignature=SharedAccessSignature sr=x&se=99"
EMULATOR = (
    "Endpoint=sb://localhost:5673;SharedAccessKeyName=name;SharedAccessKey=c2VjcmV0;"
    "UseDevelopmentEmulator=true"
)
BOTH = pytest.mark.parametrize("package", [sync_package, async_package])


@BOTH
@pytest.mark.parametrize("text", [KEY, TOKEN, EMULATOR, f"{KEY};EntityPath=orders"])
async def test_a_twin_has_the_settings_of_its_original(package, text: str) -> None:
    context = ssl.create_default_context()
    client = package.ServiceBusClient.from_connection_string(
        text,
        transport_type=TransportType.AmqpOverWebsocket,
        http_proxy={"proxy_hostname": "proxy", "proxy_port": 8080},
        user_agent="orders",
        connection_verify="ca.pem",
        custom_endpoint_address="sb://gateway:444",
        ssl_context=context,
    )
    twin = twin_of(client)
    assert is_asynchronous(twin)
    assert twin.fully_qualified_namespace == client.fully_qualified_namespace
    assert connection_settings(twin) == connection_settings(client)
    assert connection_settings(twin)["ssl_context"] is context
    assert twin._config.retry_total == 0


@BOTH
@pytest.mark.parametrize("text", [KEY, TOKEN])
async def test_a_twin_makes_the_tokens_of_its_original(package, text: str) -> None:
    client = package.ServiceBusClient.from_connection_string(text)
    original, twin = credential_of(client), credential_of(twin_of(client))
    wanted = original.get_token("sb://host/entity")
    if asyncio.iscoroutine(wanted):
        wanted = await wanted
    made = await twin.get_token("sb://host/entity")
    assert made.token.partition("&se=")[0] == wanted.token.partition("&se=")[0]
    assert twin.token_type == original.token_type


@pytest.mark.parametrize(
    "credential",
    [AzureNamedKeyCredential("name", "key"), AzureSasCredential("sig&se=99")],
)
def test_credentials_without_a_network_are_shared(credential) -> None:
    assert asynchronous_credential(credential) is credential


def test_asynchronous_token_credentials_are_shared() -> None:
    class Credential:
        async def get_token(self, *scopes: str) -> AccessToken:
            return AccessToken("token", 99)

    credential = Credential()
    assert asynchronous_credential(credential) is credential


async def test_synchronous_token_credentials_are_asked_in_a_thread() -> None:
    class Credential:
        def get_token(self, *scopes: str, **options: object) -> AccessToken:
            with pytest.raises(RuntimeError):
                asyncio.get_running_loop()
            return AccessToken(f"token for {scopes} {options}", 99)

    twin = asynchronous_credential(Credential())
    assert isinstance(twin, ThreadedCredential)
    assert not hasattr(twin, "token_type")
    token = await twin.get_token("scope", tenant_id="t")
    assert token == AccessToken("token for ('scope',) {'tenant_id': 't'}", 99)


@pytest.mark.parametrize(
    ("client_class", "asynchronous"),
    [
        (sync_package.ServiceBusClient, False),
        (async_package.ServiceBusClient, True),
        (ServiceBusAdministrationClient, False),
        (AsyncAdministrationClient, True),
    ],
)
async def test_kinds_of_clients_are_told_apart(client_class, asynchronous) -> None:
    client = client_class.from_connection_string(KEY)
    assert is_asynchronous(client) is asynchronous


def test_anything_else_is_refused_without_showing_it() -> None:
    with pytest.raises(TypeError, match=r"ServiceBusClient.*not str") as raised:
        is_asynchronous(KEY)
    assert "c2VjcmV0" not in str(raised.value)
