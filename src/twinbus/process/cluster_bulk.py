"""Asks other brokers for their share of bulk requests, over HTTP."""

from typing import Final
from urllib.parse import quote

from twinbus.broker.home import Home
from twinbus.clock import Clock
from twinbus.doors.http.bulk.forwarded_caller import forwarded_headers
from twinbus.doors.http.bulk.http_caller import HttpCaller
from twinbus.doors.http.bulk.peer_bulk import NAMESPACE, PREFIX
from twinbus.doors.http.bulk.remote_share import RemoteShare
from twinbus.doors.http.response import HttpResponse
from twinbus.peers.peers import Peers
from twinbus.process.cluster_token import cluster_token

_PASSED_ON: Final = ("content-type", "x-twinbus-next", "x-twinbus-messages")


class ClusterBulk:
    """The other brokers, as bulk requests need them."""

    def __init__(
        self, peers: Peers, key: bytes, clock: Clock, namespace: str = ""
    ) -> None:
        """`namespace`: its name; empty: the default one."""
        self._named = {NAMESPACE: namespace} if namespace else {}
        self._peers = peers
        self._key = key
        self._clock = clock
        self._shares: dict[str, RemoteShare] = {}

    def address_of(self, home: Home) -> str | None:
        return self._peers.address_of(home)

    def at(self, address: str) -> RemoteShare:
        """The same object for the same broker."""
        if address not in self._shares:
            self._shares[address] = RemoteShare(address, self.ask)
        return self._shares[address]

    async def ask(
        self,
        address: str,
        name: str,
        body: bytes,
        caller: HttpCaller,
        timeout_seconds: float,
    ) -> HttpResponse:
        """Raises ServerBusy if there is no answer."""
        token = cluster_token(address, self._key, self._clock.now())
        headers = {"authorization": token, **self._named, **forwarded_headers(caller)}
        target = "/" + quote(PREFIX + name)
        answer = await self._peers.http.post(
            address, target, headers, body, timeout_seconds
        )
        return HttpResponse(
            status=answer.status,
            body=answer.body,
            headers={
                name: value
                for name, value in answer.headers.items()
                if name in _PASSED_ON
            },
        )
