"""The closing of an application's client is noticed without changing the client."""

import asyncio
import gc

import azure.servicebus as sync_package
import azure.servicebus.aio as async_package
import pytest

from twinbus.pairing.sdk.closing_sign import put_sign

KEY = "Endpoint=sb://contoso.net;SharedAccessKeyName=name;SharedAccessKey=c2VjcmV0"


async def close(client) -> None:
    closing = client.close()
    if asyncio.iscoroutine(closing):
        await closing


@pytest.fixture(params=[sync_package, async_package], ids=["sync", "async"])
def client(request: pytest.FixtureRequest):
    return request.param.ServiceBusClient.from_connection_string(KEY)


async def test_closing_the_client_is_told_once(client) -> None:
    told = []
    sign = put_sign(client, lambda: told.append("closed"))
    await close(client)
    await close(client)
    assert told == ["closed"]
    assert sign is not None


async def test_leaving_its_context_is_closing_it(client) -> None:
    told = []
    sign = put_sign(client, lambda: told.append("closed"))
    if isinstance(client, sync_package.ServiceBusClient):
        with client:
            pass
    else:
        async with client:
            pass
    assert told == ["closed"]
    assert sign is not None


async def test_a_sign_that_is_let_go_is_forgotten(client) -> None:
    told = []
    sign = put_sign(client, lambda: told.append("closed"))
    del sign
    gc.collect()
    await close(client)
    assert told == []
