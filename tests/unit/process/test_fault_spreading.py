"""Faults reach brokers that come later, or did not answer."""

import asyncio
import json
from collections.abc import Mapping
from random import Random
from typing import Any, cast

import pytest

from twinbus.cluster.announcement import Announcement
from twinbus.cluster.broker import Broker
from twinbus.cluster.broker_directory import BrokerDirectory
from twinbus.doors.http.fellow_brokers import COPY_FAULT
from twinbus.errors import ServerBusy
from twinbus.faults.broker_faults import BrokerFaults
from twinbus.faults.fault_table import FaultTable
from twinbus.peers.peer_http import PeerAnswer
from twinbus.peers.peers import Peers
from twinbus.process import fault_spreading
from twinbus.process.cluster_requests import ClusterRequests
from twinbus.process.fault_spreading import FaultSpreading
from twinbus.store.process_identity import this_process
from twinbus.testing.clock import ManualClock

ME, OTHER = bytes(16), b"o" * 16


def announced(broker_uuid: bytes) -> Announcement:
    return Announcement(
        broker_uuid=broker_uuid,
        name="other",
        address="127.0.0.1:1",
        beat=1,
        process=this_process(),
        formats={},
    )


class OtherBroker:
    """In place of the connections to it."""

    def __init__(self) -> None:
        self.is_silent = False
        self.status = 200
        self.asked_count = 0
        self.faults: set[int] = set()

    async def post(
        self,
        address: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes,
        timeout_seconds: float,
    ) -> PeerAnswer:
        self.asked_count += 1
        await asyncio.sleep(0)
        if self.is_silent:
            raise ServerBusy("It did not answer.")
        if self.status == 200:
            self.faults.add(json.loads(body)["number"])
        return PeerAnswer(status=self.status, headers={}, body=b"{}")


class Cluster:
    """This broker and the other one."""

    def __init__(self) -> None:
        self.other = OtherBroker()
        self.directory = BrokerDirectory(ME)
        clock = ManualClock()
        self.requests = ClusterRequests(
            *(cast(Peers, self), cast(Broker, self), b"key", clock)
        )
        self.faults = BrokerFaults(FaultTable(Random(1)), clock)
        self.spreading = FaultSpreading(self.faults, self.requests)
        self.directory.learn([announced(ME), announced(OTHER)])

    @property
    def http(self) -> OtherBroker:
        return self.other

    async def set(self) -> Any:
        """As a client does, at this broker."""
        fault = self.faults.set({"effect": "refuse"})
        await self.requests.ask_all(COPY_FAULT, fault)
        return fault["number"]

    async def look(self) -> None:
        self.spreading.look()
        for _ in range(20):
            await asyncio.sleep(0)


@pytest.fixture
async def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(fault_spreading, "_AGAIN_SECONDS", 0)
    made = Cluster()
    await made.look()
    return made


async def test_broker_that_did_not_answer_is_told_when_it_does(
    cluster: Cluster,
) -> None:
    cluster.other.is_silent = True
    number = await cluster.set()
    await cluster.look()
    assert cluster.other.faults == set()
    cluster.other.is_silent = False
    await cluster.look()
    assert cluster.other.faults == {number}
    asked_count = cluster.other.asked_count
    await cluster.look()
    assert cluster.other.asked_count == asked_count


async def test_broker_that_did_not_answer_is_not_told_what_was_cleared(
    cluster: Cluster,
) -> None:
    cluster.other.is_silent = True
    await cluster.set()
    cluster.faults.clear(None)
    cluster.other.is_silent = False
    await cluster.look()
    assert cluster.other.faults == set()
    await cluster.set()
    assert len(cluster.other.faults) == 1


async def test_broker_that_refuses_is_not_asked_again(cluster: Cluster) -> None:
    cluster.other.status = 500
    await cluster.set()
    await cluster.look()
    assert cluster.other.asked_count == 1


async def test_broker_that_comes_later_is_told(cluster: Cluster) -> None:
    cluster.directory.learn([announced(ME)])
    await cluster.look()
    number = await cluster.set()
    cluster.directory.learn([announced(ME), announced(OTHER)])
    await cluster.look()
    assert cluster.other.faults == {number}
