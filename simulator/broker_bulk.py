"""Bulk requests of clients of a simulated cluster: they append to many queues, and read
one of them in ranges, over HTTP and by way of any broker.

A reader takes the lease, plans, reads what is planned, and settles it. Each of these
may be at another broker than the last one, and at another owner.
"""

import json
from dataclasses import dataclass, field
from typing import Any, Final

from simulator.broker_network import reach_over_network
from simulator.broker_visit import (
    RANGES,
    TEMPORARY,
    Means,
    Troubles,
    Visit,
    check_error,
    now,
    number_of,
    payload_of,
)
from simulator.sighting import Violation
from simulator.simulated_broker import KEY, KEY_NAME
from twinbus.auth import sas
from twinbus.clock import Clock
from twinbus.doors.http.bulk.append_body import encode_append
from twinbus.errors import (
    ReaderLeaseHeld,
    ReaderLeaseLost,
    ServerBusy,
    ServiceBusError,
    from_condition,
)
from twinbus.peers.peer_http import PeerAnswer, PeerHttp

LEASE_MS: Final = (5_000, 10_000)
"""How long reader leases last."""

_TOKEN_MS: Final = 3_600_000

Range = tuple[int, int, int]
"""Fragment, first number, and the one after the last."""


@dataclass(slots=True, kw_only=True)
class RangeAudit:
    """Who may read the queue of ranges: whoever was last granted its lease."""

    # When each epoch was granted, as the reader was told.
    granted_at: dict[int, float] = field(default_factory=dict)

    @property
    def last_epoch(self) -> int:
        return max(self.granted_at, default=0)

    def granted(self, epoch: int) -> None:
        """Raises Violation if an epoch is granted twice."""
        if epoch in self.granted_at:
            raise Violation(f"the reader epoch {epoch} was granted twice")
        self.granted_at[epoch] = now()

    def check_settled(self, epoch: int, asked_at: float) -> None:
        """Raises Violation if another reader had the lease by then."""
        if any(e > epoch and at < asked_at for e, at in self.granted_at.items()):
            raise Violation(f"a reader of epoch {epoch} settled after it was replaced")


@dataclass(slots=True, kw_only=True)
class _Plan:
    ranges: list[Range]
    # The numbers of messages in each range that was read.
    read: dict[Range, list[int]] = field(default_factory=dict)


class BulkSteps:
    """Of one client."""

    def __init__(
        self, means: Means, paths: list[str], clock: Clock, ranges: RangeAudit
    ) -> None:
        self._means = means
        self._paths = [path for path in paths if path not in TEMPORARY]
        self._clock = clock
        self._ranges = ranges
        self._http = PeerHttp(clock, reach_over_network)
        self._generation = ""
        self._epoch: int | None = None
        self._plan: _Plan | None = None

    async def _post(self, visit: Visit, name: str, body: bytes) -> PeerAnswer:
        """Raises ServiceBusError."""
        address = f"{visit.place}:{visit.port}"
        token = sas.make(
            resource=f"http://{address}/",
            key_name=KEY_NAME,
            key=KEY,
            expires_at=self._clock.now() + _TOKEN_MS,
        )
        answer = await self._http.post(
            *(address, f"/$bulk/{name}", {"authorization": token}, body),
            timeout_seconds=self._means.patience,
        )
        if answer.status != 200:
            raise _refusal(answer)
        return answer

    async def _ask(self, visit: Visit, name: str, **content: object) -> Any:
        body = json.dumps(content).encode()
        return json.loads((await self._post(visit, name, body)).body)

    # --- append ---------------------------------------------------------------

    async def append(self, visit: Visit) -> None:
        """Send messages to several queues at once."""
        random, audit = self._means.random, self._means.audit
        paths = [random.choice(self._paths) for _ in range(random.choice((1, 5, 12)))]
        rows = [audit.new_message(path) for path in paths]
        body = encode_append(paths, [payload_of(sent) for sent in rows])
        text = f"an append of {rows[0].number} to {rows[-1].number}"
        try:
            answer = json.loads((await self._post(visit, "append", body)).body)
        except Troubles as error:
            self._means.tell(f"{text} is unknown: {type(error).__name__}")
            self._check(error)
            return
        refused = {one["row"]: one for one in answer["refused"]}
        for at, sent in enumerate(rows):
            if at not in refused:
                sent.is_accepted = True
            elif not refused[at]["retryable"]:
                raise Violation(f"a client is told: {refused[at]['message']}")
        self._means.tell(f"{text} is done, without {sorted(refused)}")

    def _check(self, error: BaseException) -> None:
        if isinstance(error, ServiceBusError):
            check_error(error, "")

    # --- reading --------------------------------------------------------------

    async def read(self, visit: Visit) -> None:
        """The next thing that a reader does."""
        try:
            if self._epoch is None:
                await self._lease(visit)
            elif self._plan is None:
                await self._plan_next(visit, self._epoch)
            elif self._means.random.random() < 0.6 or not self._plan.read:
                await self._browse(visit, self._epoch, self._plan)
            else:
                await self._settle(visit, self._epoch, self._plan)
        except (ReaderLeaseLost, ReaderLeaseHeld) as error:
            self._means.tell(f"{self._means.name} reads: {type(error).__name__}")
            self._epoch, self._plan = None, None
        except Troubles as error:
            self._means.tell(f"{self._means.name} reads: {error!r:.80}")
            self._check(error)

    async def _lease(self, visit: Visit) -> None:
        if not self._generation:
            found = await self._ask(visit, "runtime", entities=[RANGES])
            self._generation = found["entities"][0]["generation"]
        found = await self._ask(
            *(visit, "lease"),
            reader=self._means.name,
            duration_ms=self._means.random.choice(LEASE_MS),
            entities=[{"path": RANGES}],
        )
        self._epoch = int(found["leases"][0]["epoch"])
        self._means.tell(f"{self._means.name} reads in epoch {self._epoch}")
        self._ranges.granted(self._epoch)

    async def _plan_next(self, visit: Visit, epoch: int) -> None:
        entity = {"path": RANGES, "generation": self._generation, "epoch": str(epoch)}
        found = await self._ask(
            *(visit, "plan"),
            reader=self._means.name,
            entities=[entity],
            max_messages=self._means.random.choice((3, 10, 100)),
        )
        ranges = [
            (part["fragment"], part["from"], part["to"])
            for part in found["fragments"]
            if part["messages"]
        ]
        self._means.tell(f"{self._means.name} plans {ranges}")
        if ranges:
            self._plan = _Plan(ranges=ranges)

    async def _browse(self, visit: Visit, epoch: int, plan: _Plan) -> None:
        import pyarrow as pa

        # Others may have the lease by the time of the answer, and settle.
        was_ours = self._ranges.last_epoch == epoch
        for planned in plan.ranges:
            index, following, end = planned
            asked_at, numbers = now(), list[int]()
            while following < end:
                content: dict[str, object] = {
                    "path": RANGES,
                    "generation": self._generation,
                    "fragment": index,
                    "from": following,
                    "to": end,
                    "columns": ["body"],
                }
                body = json.dumps(content).encode()
                answer = await self._post(visit, "browse", body)
                table = pa.ipc.open_stream(answer.body).read_all()
                numbers += map(number_of, table["body"].to_pylist())
                following = int(answer.headers["x-twinbus-next"])
            for number in numbers:
                self._means.audit.browsed(RANGES, number, asked_at)
            is_ours = was_ours and self._ranges.last_epoch == epoch
            before = plan.read.setdefault(planned, numbers)
            if is_ours and before != numbers:
                raise Violation(f"the plan {planned} had {before}, and has {numbers}")
        self._means.tell(f"{self._means.name} has read {plan.read}")

    async def _settle(self, visit: Visit, epoch: int, plan: _Plan) -> None:
        audit, asked_at = self._means.audit, now()
        numbers = [number for found in plan.read.values() for number in found]
        ends = {str(index): end for index, _, end in plan.read}
        self._plan = None
        entity = {"path": RANGES, "epoch": str(epoch), "to": ends}
        try:
            await self._ask(visit, "settle", reader=self._means.name, entities=[entity])
        except (ReaderLeaseLost, *Troubles):
            # All brokers check before any settles, but the lease may end in between.
            audit.perhaps_completed(numbers)
            raise
        self._means.tell(f"{self._means.name} has settled {numbers}")
        self._ranges.check_settled(epoch, asked_at)
        audit.completed_in_range(numbers)


def _refusal(answer: PeerAnswer) -> ServiceBusError:
    try:
        error = json.loads(answer.body)["error"]
    except ValueError:
        return ServerBusy(answer.body.decode(errors="replace"))
    return from_condition(error["condition"], error["message"])
