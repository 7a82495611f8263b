"""The syphon in the server (`[pair]`). If several servers run it, one is active.

It connects to both namespaces like any client, even to this server if that has the
backlog queues. So it needs no separate access to the store, and the limits of clients
apply to it. Its lease is the lock of a session at the secondary.
"""

from typing import Any, Final

from twinbus.client.address import parse_address
from twinbus.clock import Clock
from twinbus.config.pair import PairConfig
from twinbus.entities.namespace import Namespace
from twinbus.errors import EntityAlreadyExists
from twinbus.pairing.coverage import covers_any
from twinbus.pairing.primary_name import primary_name
from twinbus.pairing.reporting import Reporter
from twinbus.pairing.syphon.ports import Engine
from twinbus.pairing.syphon.service import SyphonService
from twinbus.pairing.syphon.settings import SyphonSettings
from twinbus.pairing.syphon.syphon import TRANSFER
from twinbus.pairing.syphon.tally import SyphonStatus
from twinbus.pairing.syphon_engines import engine_of_strings

_QUEUE: Final[dict[str, Any]] = {
    "lock_duration_ms": 60_000,
    "max_delivery_count": 2_147_483_647,
    "dead_lettering_on_message_expiration": True,
}
"""Messages neither expire nor are dead-lettered, however long the primary is away."""

_MEGABYTES: Final = 5120


class PairSyphon:
    """The syphon of this server."""

    def __init__(
        self,
        pair: PairConfig,
        clock: Clock,
        max_entity_megabytes: int = _MEGABYTES,
    ) -> None:
        """Raises ValueError if the section is not valid."""
        self._pair = pair
        self._clock = clock
        self._megabytes = min(_MEGABYTES, max_entity_megabytes)
        self.primary_name = primary_name(
            parse_address(pair.primary).host, pair.primary_name or None
        )
        if pair.secondary:
            parse_address(pair.secondary)
        self._settings = SyphonSettings(
            covers=covers_any(pair.cover),
            count_backlog_against_ttl=pair.count_backlog_against_ttl,
            keeps_order=pair.keep_session_order,
            missing_entity_grace_ms=pair.missing_entity_grace_ms,
        )
        self._service: SyphonService | None = None

    async def start(
        self,
        namespace: Namespace,
        own_string: str,
        authority: str | None,
        on_event: Reporter | None = None,
    ) -> None:
        """Start the syphon; `own_string` connects to this server, whose certificate
        `authority` signed. Raises ServiceBusError if a backlog queue cannot be
        created."""
        pair = self._pair
        if not pair.secondary:
            await self._make_queues(namespace)

        async def open_engine() -> Engine[Any]:
            return await engine_of_strings(
                pair.primary,
                pair.secondary or own_string,
                self._clock,
                pair.secondary_name or None,
                None if pair.secondary else authority,
            )

        self._service = SyphonService(
            open_engine,
            self.primary_name,
            self._settings,
            needs_lease=True,
            on_event=on_event,
            clock=self._clock,
        )
        self._service.start()

    async def _make_queues(self, namespace: Namespace) -> None:
        properties = {**_QUEUE, "max_size_in_megabytes": self._megabytes}
        for index in range(self._pair.backlog_queue_count):
            path = f"{self.primary_name}/{TRANSFER}/{index}"
            try:
                await namespace.create_queue(path, properties)
            except EntityAlreadyExists:
                # It exists already, and is used as it is.
                continue

    @property
    def is_running(self) -> bool:
        """True if this server has the lease."""
        return self._service is not None and self._service.is_running

    def status(self) -> SyphonStatus | None:
        return None if self._service is None else self._service.status()

    async def close(self) -> None:
        if self._service is not None:
            await self._service.close()
