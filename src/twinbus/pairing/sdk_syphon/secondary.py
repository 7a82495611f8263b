"""The backlog queues of any secondary, found through its administration client."""

import contextlib
from typing import Any

from azure.core.exceptions import ResourceExistsError

from twinbus.clock import Clock
from twinbus.pairing.primary_name import without_port
from twinbus.pairing.sdk.namespace import SdkNamespace
from twinbus.pairing.sdk.twins import SecondaryAdministration
from twinbus.pairing.sdk_syphon.errors import secondary_errors
from twinbus.pairing.sdk_syphon.lease import SdkLease
from twinbus.pairing.sdk_syphon.listing import AdministeredListing
from twinbus.pairing.sdk_syphon.source import SdkSource
from twinbus.pairing.syphon.ports import BacklogQueue


class SdkSecondary:
    """`Secondary` for any namespace, with an administration client of either kind."""

    def __init__(
        self,
        namespace: SdkNamespace,
        administration: Any,
        clock: Clock,
        name: str | None = None,
        *,
        closes_administration: bool = False,
    ) -> None:
        self.name = name or without_port(namespace.name).lower()
        self._namespace = namespace
        self._administration = administration
        self._listing = AdministeredListing(administration)
        self._clock = clock
        self._closes_administration = closes_administration

    async def queues(self, prefix: str) -> list[BacklogQueue]:
        return await self._listing(prefix)

    def source(self, queue: BacklogQueue) -> SdkSource:
        return SdkSource(self._namespace, queue, self.name, self._clock)

    async def lease(self, path: str) -> SdkLease:
        administration = SecondaryAdministration(self._administration)
        async with secondary_errors():
            with contextlib.suppress(ResourceExistsError):
                await administration.create_queue(path, requires_session=True)
        return SdkLease(self._namespace, path)

    async def close(self) -> None:
        await self._namespace.close()
        if self._closes_administration:
            await self._administration.close()
