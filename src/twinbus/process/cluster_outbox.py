"""Brings entries of an outbox to the brokers that serve the stores they are for."""

from typing import Final

from twinbus.broker.changes import OutboxEntry
from twinbus.cluster.broker_directory import BrokerDirectory
from twinbus.errors import ServerBusy
from twinbus.outbox.remote_stores import Receipt, RefusedEntry
from twinbus.peers.peer_requests import (
    ADDRESS,
    APPEND,
    DIVERTED,
    answered,
    peer_request,
)
from twinbus.peers.peers import Peers

_APPEND_SECONDS: Final = 10.0
"""How long another broker may take to commit a portion. It is brought again then."""

_ASK_SECONDS: Final = 1.0
"""How long it may take to say what it keeps: a store waits for that to be served."""


class ClusterOutbox:
    """The stores of the other brokers, as lanes need them."""

    def __init__(self, peers: Peers, directory: BrokerDirectory) -> None:
        self._peers = peers
        self._directory = directory

    def serves(self, store_uuid: bytes) -> bool:
        return self._directory.address_of(store_uuid) is not None

    async def append(
        self,
        store_uuid: bytes,
        source_uuid: bytes,
        epoch: int,
        entries: list[OutboxEntry],
    ) -> Receipt:
        address = self._directory.address_of(store_uuid)
        if address is None:
            raise ServerBusy("No other broker serves the store.")
        value = {
            "store": store_uuid,
            "source": source_uuid,
            "epoch": epoch,
            "entries": [
                [one.entry_id, one.target, one.raw, one.origin] for one in entries
            ],
        }
        message = peer_request(APPEND, value)
        found = answered(
            await self._peers.request(address, ADDRESS, message, _APPEND_SECONDS)
        )
        taken_count, refused = found["taken"], found["refused"]
        return Receipt(
            taken=entries[:taken_count],
            full=list(found["full"]),
            refused=[
                RefusedEntry(entry=entry, reason=reason, text=text)
                for entry, (reason, text) in zip(
                    entries[taken_count:], refused, strict=False
                )
            ],
        )

    async def diverted(self, log_uuid: bytes, store_uuid: bytes) -> list[str]:
        address = self._directory.address_of(log_uuid)
        if address is None:
            raise ServerBusy("No other broker serves the store.")
        message = peer_request(DIVERTED, {"log": log_uuid, "store": store_uuid})
        found = answered(
            await self._peers.request(address, ADDRESS, message, _ASK_SECONDS)
        )
        return list(found["targets"])
