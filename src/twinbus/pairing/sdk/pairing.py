"""A pair over the SDK, from the check of its clients to its end.

The synchronous and the asynchronous face use it. It owns twins of the two clients, the
pair itself, the syphon if this process runs one, and the signs that tell when the
application closes its clients.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from secrets import token_bytes
from typing import Any
from weakref import WeakSet

from azure.servicebus import ServiceBusMessage

from twinbus.clock import SystemClock
from twinbus.pairing.backlog_queues import find_or_make
from twinbus.pairing.errors import PairFaulted
from twinbus.pairing.events import EventKind, PairEvent
from twinbus.pairing.faulting import FaultWatch, Side
from twinbus.pairing.options import SendAvailabilityPairedNamespaceOptions
from twinbus.pairing.pair import Pair
from twinbus.pairing.primary_name import primary_name
from twinbus.pairing.sdk.closing_sign import put_sign
from twinbus.pairing.sdk.credentials import check_primary, check_secondary
from twinbus.pairing.sdk.dialect import SdkDialect
from twinbus.pairing.sdk.namespace import SdkNamespace
from twinbus.pairing.sdk.patience import Patience
from twinbus.pairing.sdk.twins import SecondaryAdministration, is_asynchronous, twin_of
from twinbus.pairing.send_log import SendLog
from twinbus.pairing.status import PairStatus
from twinbus.pairing.syphon.service import SyphonService
from twinbus.pairing.syphon.settings import SyphonSettings
from twinbus.pairing.syphon_engines import engine_of_clients
from twinbus.sdk_internals.clients import endpoint_of

_paired: "WeakSet[Any]" = WeakSet()
"""Clients that are the primary of a pair now."""


class Pairing:
    """The two sides, tied together. Lives on one event loop."""

    def __init__(
        self, primary: Any, name: str, options: SendAvailabilityPairedNamespaceOptions
    ) -> None:
        """Made by `open_pairing`; `name` is the primary's, in paths of the backlog."""
        self.options = options
        self._clients = {
            Side.PRIMARY: primary,
            Side.SECONDARY: options.secondary_client,
        }
        self.primary = SdkNamespace(twin_of(primary))
        self.secondary = SdkNamespace(twin_of(options.secondary_client))
        self.pair: Pair[ServiceBusMessage] = Pair(
            primary=self.primary,
            secondary=self.secondary,
            dialect=SdkDialect(),
            backlog_queues=options.backlog_queues,
            settings=options.settings,
            clock=SystemClock(),
            random=Random(),
            entropy=token_bytes,
            send_log=_send_log(options, name),
        )
        if options.on_event is not None:
            self.pair.report.add(options.on_event)
        self._watch = FaultWatch(
            on_both_ended=self._end,
            on_fault=self._fault,
            # P14: only in a process that hosts the syphon.
            grace_seconds=options.settings.fault_grace_ms / 1000
            if options.enable_syphon
            else None,
        )
        self._signs: list[Any] = []
        self._syphon = self._make_syphon(name) if options.enable_syphon else None
        self._is_closed = False

    def _make_syphon(self, name: str) -> SyphonService:
        clock, options = SystemClock(), self.options
        primary, secondary = self._clients.values()
        return SyphonService(
            lambda: engine_of_clients(
                primary, secondary, options.secondary_management_client, clock
            ),
            name,
            SyphonSettings(
                attempt_timeout_ms=options.settings.attempt_timeout_ms,
                # An application with short pings also wants its backlog back soon.
                last_probe_ms=options.settings.ping_primary_interval_ms,
                busy_wait_ms=options.settings.busy_wait_ms,
                covers=options.covers,
                count_backlog_against_ttl=options.count_backlog_against_ttl,
                keeps_order=options.settings.keep_session_order,
            ),
            on_event=self.pair.report,
            clock=clock,
        )

    def start(self) -> None:
        """Start the syphon, if this process runs it (P12), and watch for the end of
        either client (P14)."""
        if self._syphon is not None:
            self._syphon.start()
        loop = asyncio.get_running_loop()
        for side, client in self._clients.items():
            host = client.fully_qualified_namespace
            why = f"The client of the {side.value} '{host}' was closed"
            tell = _in_loop(loop, partial(self._watch.side_ended, side, why))
            self._signs.append(put_sign(client, tell))

    def status(self) -> PairStatus:
        """The state of the pair, as this process sees it."""
        syphon = None if self._syphon is None else self._syphon.status()
        return replace(self.pair.status(), syphon=syphon)

    # --- ends -----------------------------------------------------------------------

    async def close(self) -> None:
        """End the pair, and close both clients of the application."""
        self._watch.disarm()
        await self._end()
        for client in self._clients.values():
            await _close_client(client)

    async def _fault(self, side: Side, text: str) -> None:
        self.pair.report(PairEvent(kind=EventKind.FAULTED, text=text))
        # At the same time: a syphon may take a while to end.
        await asyncio.gather(
            self._end(PairFaulted(text)), _close_client(self._clients[side])
        )

    async def _end(self, error: Exception | None = None) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        # The clients hold them weakly.
        self._signs.clear()
        _paired.discard(self._clients[Side.PRIMARY])
        await self.pair.close(error)
        if self._syphon is not None:
            await self._syphon.close()
        await asyncio.gather(self.primary.close(), self.secondary.close())


async def open_pairing(
    primary: Any, options: SendAvailabilityPairedNamespaceOptions
) -> Pairing:
    """Check everything, find or make the backlog queues, and tie the two together.

    Raises ValueError or TypeError for clients that cannot be paired, and the SDK's own
    errors if a namespace refuses a request or does not answer.
    """
    name = _check(primary, options)
    _paired.add(primary)
    try:
        queues = await _prepare(primary, name, options)
        options.backlog_queues, options.backlog_queue_count = queues, len(queues)
        pairing = Pairing(primary, name, options)
    except BaseException:
        _paired.discard(primary)
        raise
    pairing.start()
    return pairing


async def _prepare(
    primary: Any, name: str, options: SendAvailabilityPairedNamespaceOptions
) -> tuple[str, ...]:
    """Check both sides; returns the paths of the backlog queues."""
    limit = options.settings.attempt_timeout_ms / 1000
    patience = Patience(options.settings.pairing_timeout_ms / 1000)
    secondary = options.secondary_client
    hosts = f"'{secondary.fully_qualified_namespace}'"
    async with patience.with_side(
        f"primary '{primary.fully_qualified_namespace}'", "its credentials were checked"
    ):
        known = options.known_entities if options.enable_syphon else ()
        await _with_namespace(primary, lambda side: check_primary(side, limit, known))
    async with patience.with_side(
        f"secondary {hosts}", "its backlog queues were found or made"
    ):
        queues = await find_or_make(
            SecondaryAdministration(options.secondary_management_client),
            name,
            options.backlog_queue_count,
        )
    async with patience.with_side(
        f"secondary {hosts}", "its backlog queues were opened"
    ):
        await _with_namespace(
            secondary,
            lambda side: check_secondary(
                side, queues, limit, listens=options.enable_syphon
            ),
        )
    return queues


def _check(primary: Any, options: SendAvailabilityPairedNamespaceOptions) -> str:
    """The primary's name in paths. Raises for clients that cannot be paired."""
    if not isinstance(options, SendAvailabilityPairedNamespaceOptions):
        raise TypeError(
            "The options must be SendAvailabilityPairedNamespaceOptions, not "
            f"{type(options).__name__}."
        )
    secondary = options.secondary_client
    clients = (primary, secondary, options.secondary_management_client)
    if len({is_asynchronous(client) for client in clients}) > 1:
        raise ValueError(
            "Synchronous and asynchronous clients were mixed. Give three of "
            "azure.servicebus, or three of azure.servicebus.aio."
        )
    if primary in _paired:
        raise ValueError(
            f"The client of '{primary.fully_qualified_namespace}' is paired already. "
            "Close the pair first, or use another client."
        )
    if endpoint_of(primary) == endpoint_of(secondary):
        raise ValueError(
            f"Primary and secondary are the same namespace, "
            f"'{primary.fully_qualified_namespace}': it would be away with itself."
        )
    return primary_name(primary.fully_qualified_namespace, options.primary_name)


async def _with_namespace(client: Any, action: Callable[[SdkNamespace], Any]) -> None:
    namespace = SdkNamespace(twin_of(client))
    try:
        await action(namespace)
    finally:
        await namespace.close()


def _send_log(
    options: SendAvailabilityPairedNamespaceOptions, name: str
) -> SendLog | None:
    """Raises OSError."""
    if options.send_log is None:
        return None
    return SendLog(
        options.send_log,
        name,
        SystemClock(),
        keep_ms=options.send_log_keep_ms,
        keep_bytes=options.send_log_keep_bytes,
    )


def _in_loop(
    loop: asyncio.AbstractEventLoop, call: Callable[[], None]
) -> Callable[[], None]:
    """A function that makes the call, from any thread and at any time."""

    def tell() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(call)

    return tell


async def _close_client(client: Any) -> None:
    if is_asynchronous(client):
        await client.close()
    else:
        await asyncio.to_thread(client.close)
