"""Finds backlog queues by an administration client of the SDK, of either kind."""

from typing import Any, final

from twinbus.instants import instant_ms
from twinbus.pairing.daemon_thread import in_daemon_thread
from twinbus.pairing.sdk.twins import is_asynchronous
from twinbus.pairing.sdk_syphon.errors import secondary_errors
from twinbus.pairing.syphon.ports import BacklogQueue


@final
class AdministeredListing:
    """`Listing` for any namespace; its key needs the Manage right."""

    def __init__(self, administration: Any) -> None:
        self._administration = administration

    async def __call__(self, prefix: str) -> list[BacklogQueue]:
        async with secondary_errors():
            found = await self._runtime_properties()
        return [
            BacklogQueue(properties.name, instant_ms(properties.created_at_utc))
            for properties in found
            if properties.name.lower().startswith(prefix.lower())
        ]

    async def _runtime_properties(self) -> list[Any]:
        listing = self._administration.list_queues_runtime_properties
        if is_asynchronous(self._administration):
            return [properties async for properties in listing()]
        return await in_daemon_thread(lambda: list(listing()))
