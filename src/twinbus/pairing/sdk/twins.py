"""Asynchronous twins of the clients that an application has.

A twin connects as its original does: same host, credential and settings. It does not
try again by itself, because the pair does. A synchronous administration client needs no
twin: it is seldom used, and its calls are made in threads.
"""

import asyncio
import inspect
from typing import Any

from azure.core.credentials import (
    AccessToken,
    AzureNamedKeyCredential,
    AzureSasCredential,
)
from azure.servicebus import ServiceBusClient
from azure.servicebus.aio import ServiceBusClient as AsyncClient
from azure.servicebus.aio.management import (
    ServiceBusAdministrationClient as AsyncAdministrationClient,
)
from azure.servicebus.management import ServiceBusAdministrationClient

from twinbus.pairing.daemon_thread import in_daemon_thread
from twinbus.sdk_internals import clients


def is_asynchronous(client: Any) -> bool:
    """Raises TypeError for an object that is not a client of the SDK."""
    if isinstance(client, AsyncClient | AsyncAdministrationClient):
        return True
    if isinstance(client, ServiceBusClient | ServiceBusAdministrationClient):
        return False
    raise TypeError(
        "Pairing needs clients of azure-servicebus: ServiceBusClient and "
        f"ServiceBusAdministrationClient, not {type(client).__name__}."
    )


def twin_of(client: Any, user_agent: str = "") -> AsyncClient:
    """An asynchronous client for the same namespace, that never retries. It says that
    it is a `user_agent`, and what its original says."""
    settings = clients.connection_settings(client)
    given = settings.pop("user_agent")
    agents = " ".join(one for one in (user_agent, given) if one)
    return AsyncClient(
        client.fully_qualified_namespace,
        asynchronous_credential(clients.credential_of(client)),
        retry_total=0,
        user_agent=agents or None,
        **settings,
    )


def asynchronous_credential(credential: Any) -> Any:
    """The credential itself if an asynchronous client takes it, else a twin."""
    if isinstance(credential, AzureNamedKeyCredential | AzureSasCredential):
        return credential
    key = clients.asynchronous_key(credential)
    if key is not None:
        return key
    if inspect.iscoroutinefunction(credential.get_token):
        return credential
    return ThreadedCredential(credential)


class ThreadedCredential:
    """A synchronous token credential, asked in a thread: it may go to the network."""

    def __init__(self, credential: Any) -> None:
        self._credential = credential
        # Credentials without it have tokens of Entra ID.
        if hasattr(credential, "token_type"):
            self.token_type = credential.token_type

    async def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        token: AccessToken = await asyncio.to_thread(
            self._credential.get_token, *scopes, **options
        )
        return token


class SecondaryAdministration:
    """The secondary's administration client, synchronous or asynchronous."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._is_asynchronous = is_asynchronous(client)

    async def get_queue(self, path: str) -> Any:
        return await self._call(self._client.get_queue, path)

    async def create_queue(self, path: str, **settings: Any) -> Any:
        return await self._call(self._client.create_queue, path, **settings)

    async def get_queue_runtime_properties(self, path: str) -> Any:
        return await self._call(self._client.get_queue_runtime_properties, path)

    async def _call(self, method: Any, *args: Any, **kwargs: Any) -> Any:
        if self._is_asynchronous:
            return await method(*args, **kwargs)
        return await in_daemon_thread(method, *args, **kwargs)
