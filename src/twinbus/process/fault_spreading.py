"""Tells a broker that comes later which faults are set.

Each broker that sees a new one tells it all that it knows. So none is left out that was
set before the others knew of the new one, and a fault that is told twice is set once.
"""

import asyncio
import logging

from twinbus.cluster.announcement import Announcement
from twinbus.doors.http.fellow_brokers import CLEAR_FAULTS, COPY_FAULT
from twinbus.faults.broker_faults import BrokerFaults
from twinbus.process.cluster_requests import ClusterRequests

_log = logging.getLogger(__name__)


class FaultSpreading:
    """Of one broker."""

    def __init__(self, faults: BrokerFaults, cluster: ClusterRequests) -> None:
        self._faults = faults
        self._cluster = cluster
        # UUIDs of the brokers that were alive at the last look.
        self._known: set[bytes] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def look(self) -> None:
        """Tell those that are new."""
        others = self._cluster.others()
        for broker in others:
            if broker.broker_uuid not in self._known and self._faults.all():
                task = asyncio.create_task(self._tell(broker), name="tell faults")
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        self._known = {one.broker_uuid for one in others}

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _tell(self, broker: Announcement) -> None:
        told = self._faults.all()
        for fault in told:
            answer = await self._cluster.ask(broker, COPY_FAULT, fault)
            if answer.content is None:
                _log.warning(
                    "broker %s does not have fault %d: %s",
                    *(broker.name, fault["number"], answer.why),
                )
        # Whoever cleared one meanwhile may not have known of the new broker.
        left = {fault["number"] for fault in self._faults.all()}
        for number in {fault["number"] for fault in told} - left:
            await self._cluster.ask(broker, CLEAR_FAULTS, {"number": number})
