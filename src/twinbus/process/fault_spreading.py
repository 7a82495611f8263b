"""Tells a broker that comes later, or did not answer, which faults are set.

Each broker that sees a new one tells it all that it knows. So none is left out that was
set before the others knew of the new one, and a fault that is told twice is set once.
Who set a fault tells it again to those that did not answer.
"""

import asyncio
import logging
from functools import partial

from twinbus.cluster.announcement import Announcement
from twinbus.doors.http.fellow_brokers import CLEAR_FAULTS, COPY_FAULT
from twinbus.faults.broker_faults import BrokerFaults
from twinbus.process.cluster_requests import ClusterRequests

_log = logging.getLogger(__name__)

_AGAIN_SECONDS = 1.0
"""Until a broker that did not answer is told again."""


class FaultSpreading:
    """Of one broker."""

    def __init__(self, faults: BrokerFaults, cluster: ClusterRequests) -> None:
        self._faults = faults
        self._cluster = cluster
        # UUIDs of the brokers that were alive at the last look.
        self._known: set[bytes] = set()
        # By the UUID of who is being told.
        self._tasks: dict[bytes, asyncio.Task[None]] = {}

    def look(self) -> None:
        """Tell those that are new, and those that have not answered."""
        others = {one.broker_uuid: one for one in self._cluster.others()}
        untold = (others.keys() - self._known) | self._cluster.without_fault
        self._known = set(others)
        if not self._faults.all():
            self._cluster.without_fault.clear()
            return
        for uuid in (untold & self._known) - self._tasks.keys():
            task = asyncio.create_task(self._tell(others[uuid]), name="tell faults")
            self._tasks[uuid] = task
            task.add_done_callback(partial(self._end, uuid))

    def _end(self, uuid: bytes, _: asyncio.Task[None]) -> None:
        del self._tasks[uuid]

    def stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()

    async def _tell(self, broker: Announcement) -> None:
        self._cluster.without_fault.discard(broker.broker_uuid)
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
        if broker.broker_uuid in self._cluster.without_fault:
            await asyncio.sleep(_AGAIN_SECONDS)
