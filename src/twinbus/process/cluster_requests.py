"""Asks other brokers to do something with themselves, over HTTP."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any, Final

from twinbus.clock import Clock
from twinbus.cluster.announcement import Announcement
from twinbus.cluster.broker import Broker
from twinbus.doors.http.fellow_brokers import COPY_FAULT, BrokerAnswer
from twinbus.doors.http.json_response import json_text
from twinbus.doors.http.peer_management import PREFIX
from twinbus.errors import ServerBusy
from twinbus.peers.peer_http import PeerAnswer
from twinbus.peers.peers import Peers
from twinbus.process.cluster_token import cluster_token

_ANSWER_SECONDS: Final = 3.0
"""Who is frozen or cut off does not keep the client waiting."""


class ClusterRequests:
    """The other brokers that are alive."""

    def __init__(self, peers: Peers, broker: Broker, key: bytes, clock: Clock) -> None:
        self._peers = peers
        self._broker = broker
        self._key = key
        self._clock = clock
        # UUIDs of those that did not answer when they were told of a fault.
        self.without_fault: set[bytes] = set()

    @property
    def own_name(self) -> str:
        return self._broker.announcement().name

    def others(self) -> list[Announcement]:
        return self._broker.directory.others()

    def position(self) -> tuple[int, int]:
        """Which one of how many this broker is."""
        known = {one.broker_uuid for one in self.others()} | {self._broker.uuid}
        return sorted(known).index(self._broker.uuid), len(known)

    async def ask_all(self, name: str, content: object) -> Sequence[BrokerAnswer]:
        asked = [self.ask(one, name, content) for one in self.others()]
        return await asyncio.gather(*asked)

    async def ask(
        self, broker: Announcement, name: str, content: object
    ) -> BrokerAnswer:
        address = broker.address
        token = cluster_token(address, self._key, self._clock.now())
        try:
            answer = await self._peers.http.post(
                address,
                f"/{PREFIX}{name}",
                {"authorization": token},
                json_text(content).encode(),
                _ANSWER_SECONDS,
            )
        except ServerBusy:
            if name == COPY_FAULT:
                self.without_fault.add(broker.broker_uuid)
            why = "It did not answer, and may do it later."
            return BrokerAnswer(broker=broker.name, content=None, why=why)
        return _understood(broker.name, answer)


def _understood(broker: str, answer: PeerAnswer) -> BrokerAnswer:
    try:
        content: dict[str, Any] = json.loads(answer.body)
        if answer.status == 200:
            return BrokerAnswer(broker=broker, content=content)
        why = str(content["error"]["message"])
    except (ValueError, LookupError, TypeError):
        # It is of another version.
        why = f"It answered with status {answer.status}."
    return BrokerAnswer(broker=broker, content=None, why=why)
