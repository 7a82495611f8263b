"""Senders, a receiver and a syphon, while the primary is killed and frozen again and
again.

Each part is a process of its own; this one starts them, breaks the primary, listens to
what they tell, and has the receiver judge at the end.
"""

import asyncio
import enum
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.pairing_audit import Verdict
from bench.pairing_process import Line, LineProcess, ProcessFailed, until
from bench.pairing_results import LoadResult, Outage
from bench.pairing_site import Site

QUEUE = "orders"
PRIMARY = "primary"
TRANSFER = f"{PRIMARY}/x-servicebus-transfer/"

CONFIG = f"""\
[queues.{QUEUE}]
max_size_in_megabytes = 5120
"""

_START_SECONDS = 60.0
_RECOVERY_SECONDS = 120.0
_DRAIN_SECONDS = 300.0
# What must not come any more gets this long to come.
_QUIET_SECONDS = 3.0
_LOOK_SECONDS = 0.25

Condition = Callable[[], bool]


class SyphonHost(enum.StrEnum):
    """Who runs the syphon."""

    # The one that receives, by `enable_syphon`.
    APPLICATION = "application"
    # `twinbus syphon`.
    COMMAND = "command"
    # The secondary, by its section `[pair]`.
    SERVER = "server"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run is asked to do."""

    senders: int
    rate: float
    kills: int
    freezes: int
    outage_seconds: float
    # Before the first outage, and between the end of one and the next.
    calm_seconds: float
    failover_interval: float
    attempt_timeout: float
    ping_interval: float
    # What a failover may take besides its interval and one attempt.
    allowance_seconds: float
    backlog_queues: int = 10
    most_per_call: int = 100
    body_bytes: int = 256
    syphon: SyphonHost = SyphonHost.APPLICATION

    @property
    def failover_bound_seconds(self) -> float:
        return self.failover_interval + self.attempt_timeout + self.allowance_seconds


class Told:
    """A process of the bench and all that matters of what it has told."""

    def __init__(self, name: str, folder: Path, module: str) -> None:
        self.process = LineProcess(name, folder, ("-m", module), self._heard)
        self.latest: Line = {}
        # Lines that are neither status nor end, by kind.
        self._lines: dict[str, list[Line]] = {}

    def _heard(self, text: str) -> None:
        line = json.loads(text)
        if line["kind"] in ("status", "end"):
            self.latest = line
        if line["kind"] != "status":
            self._lines.setdefault(line["kind"], []).append(line)

    def has(self, kind: str) -> bool:
        return kind in self._lines

    def first_at(self, kind: str, after: float, text: str | None = None) -> float:
        """When such a line first came after that instant; infinite if never."""
        return min(
            (
                line["at"]
                for line in self._lines.get(kind, [])
                if line["at"] >= after and text in (None, line.get("text"))
            ),
            default=float("inf"),
        )


class LoadRun:
    """One run, from empty namespaces to the verdict."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self._plan = plan
        self._primary = Site(PRIMARY, folder, CONFIG)
        primary_file = _secret_file(self._primary, folder)
        self._secondary = Site("secondary", folder, _pair_config(plan, primary_file))
        self._receiver = Told("receiver", folder, "bench.pairing_receiver")
        self._senders = [
            Told(f"sender-{index}", folder, "bench.pairing_sender")
            for index in range(plan.senders)
        ]
        self._syphon = LineProcess(
            "syphon",
            folder,
            (
                *("-m", "twinbus", "syphon", "--primary-name", PRIMARY),
                *("--primary", primary_file),
                *("--secondary", _secret_file(self._secondary, folder)),
            ),
            _say,
        )
        self._outages: list[Outage] = []

    async def measure(self) -> LoadResult:
        plan = self._plan
        try:
            await self._start()
            await asyncio.sleep(plan.calm_seconds)
            for kind in ["kill"] * plan.kills + ["freeze"] * plan.freezes:
                self._outages.append(await self._outage(kind))
                _say(f"{self._outages[-1]}")
                await asyncio.sleep(plan.calm_seconds)
            await self._end_senders()
            verdict, left_over = await self._judge()
            return self._result(verdict, left_over)
        finally:
            await self._stop()

    # --- processes ------------------------------------------------------------

    def _parts(self) -> list[LineProcess]:
        """All but the two namespaces."""
        told = [self._receiver, *self._senders]
        return [*(one.process for one in told), self._syphon]

    async def _start(self) -> None:
        await asyncio.gather(self._primary.start(), self._secondary.start())
        for index, told in enumerate([self._receiver, *self._senders]):
            await told.process.start()
            told.process.tell(self._settings(index - 1))
            # One after the other: the first one makes the backlog queues.
            await self._until(partial(told.has, "ready"), told.process.name)
        if self._plan.syphon is SyphonHost.COMMAND:
            await self._syphon.start()
        for sender in self._senders:
            sender.process.tell({"told": "begin"})

    def _settings(self, sender: int) -> Line:
        plan = self._plan
        return {
            **{"sender": sender, "queue": QUEUE, "primary_name": PRIMARY},
            "primary": self._primary.connection_string,
            "secondary": self._secondary.connection_string,
            "secondary_ca_file": self._secondary.ca_file,
            **{"rate": plan.rate, "most": plan.most_per_call},
            "body_bytes": plan.body_bytes,
            "backlog_queues": plan.backlog_queues,
            "failover_interval": plan.failover_interval,
            "attempt_timeout": plan.attempt_timeout,
            "ping_interval": plan.ping_interval,
            "enable_syphon": plan.syphon is SyphonHost.APPLICATION,
        }

    async def _until(
        self, condition: Condition, what: str, seconds: float = _START_SECONDS
    ) -> float:
        started = [one for one in self._parts() if one.was_started]
        return await until(condition, what, seconds, started)

    async def _stop(self) -> None:
        await asyncio.gather(*(process.stop() for process in self._parts()))
        await asyncio.gather(self._primary.stop(), self._secondary.stop())

    def errors(self) -> str:
        """The ends of what all processes wrote to stderr."""
        sites = [self._primary.process, self._secondary.process]
        return "\n".join(
            f"{one.name}: {one.errors()}" for one in (*self._parts(), *sites)
        )

    # --- an outage ------------------------------------------------------------

    async def _outage(self, kind: str) -> Outage:
        plan = self._plan
        began_at = time.monotonic()
        if kind == "kill":
            await self._primary.kill()
        else:
            self._primary.freeze()
        await asyncio.sleep(plan.outage_seconds)
        await self._all_diverted(began_at)
        backlog = await self._backlog()
        back_at = time.monotonic()
        if kind == "kill":
            ready_at = await self._primary.start()
        else:
            self._primary.thaw()
            ready_at = back_at
        watch = asyncio.create_task(self._watch_backlog(backlog))
        recovered_at = await self._recovered(back_at)
        backlog, drain_began_at, drained_at = await watch
        diverted = [one.first_at("diverted", began_at) for one in self._senders]
        return Outage(
            kind=kind,
            seconds=back_at - began_at,
            first_diverted_seconds=min(diverted) - began_at,
            last_diverted_seconds=max(diverted) - began_at,
            ready_seconds=ready_at - back_at,
            recovered_seconds=recovered_at - back_at,
            drain_began_seconds=drain_began_at - back_at,
            drained_seconds=drained_at - back_at,
            backlog=backlog,
        )

    async def _all_diverted(self, since: float) -> None:
        """A short outage lasts until all senders have noticed it: on a busy machine
        that takes longer, and without a backlog nothing is shown."""

        def last() -> float:
            return max(one.first_at("diverted", since) for one in self._senders)

        await self._until(lambda: last() < float("inf"), "detour", _RECOVERY_SECONDS)

    async def _recovered(self, since: float) -> float:
        """When the last sender found its entity healthy again."""

        def times() -> list[float]:
            return [one.first_at("state", since, "healthy") for one in self._senders]

        await self._until(
            lambda: max(times()) < float("inf"), "recovery", _RECOVERY_SECONDS
        )
        return max(times())

    async def _backlog(self) -> int:
        return await self._secondary.waiting_count(TRANSFER)

    async def _watch_backlog(self, most: int) -> tuple[int, float, float]:
        """The largest backlog, when it began to shrink, and when it was empty."""
        shrank_at = time.monotonic()
        ends_at = shrank_at + _DRAIN_SECONDS
        while count := await self._backlog():
            if count >= most:
                most, shrank_at = count, time.monotonic()
            if time.monotonic() > ends_at:
                raise ProcessFailed(f"the backlog still has {count} messages")
            await asyncio.sleep(_LOOK_SECONDS)
        return most, shrank_at, time.monotonic()

    # --- the end --------------------------------------------------------------

    async def _end_senders(self) -> None:
        for sender in self._senders:
            sender.process.tell({"told": "stop"})
        for sender in self._senders:
            await until(partial(sender.has, "end"), "last send", _RECOVERY_SECONDS)

    async def _judge(self) -> tuple[Verdict, int]:
        """The receiver's verdict, and what is left in any queue."""
        accepted = sum(one.latest["sent"] for one in self._senders) - self._failed()
        try:
            await until(
                lambda: self._receiver.latest["once"] >= accepted,
                "all that was accepted",
                _DRAIN_SECONDS,
                [self._receiver.process],
            )
        except ProcessFailed as error:
            _say(str(error))
        await asyncio.sleep(_QUIET_SECONDS)
        left_over = await self._backlog() + await self._primary.waiting_count()
        by_sender = dict(enumerate(one.latest for one in self._senders))
        self._receiver.process.tell(
            {
                "sent": {index: line["sent"] for index, line in by_sender.items()},
                "failed": {index: line["failed"] for index, line in by_sender.items()},
            }
        )
        await until(lambda: self._receiver.has("end"), "verdict", _START_SECONDS)
        end = {**self._receiver.latest}
        del end["kind"], end["at"]
        return Verdict(**end), left_over

    def _failed(self) -> int:
        return sum(
            last - first + 1
            for one in self._senders
            for first, last in one.latest["failed"]
        )

    def _result(self, verdict: Verdict, left_over: int) -> LoadResult:
        ends = [one.latest for one in self._senders]
        sent = sum(end["sent"] for end in ends)
        seconds = max(end["seconds"] for end in ends)
        return LoadResult(
            syphon=self._plan.syphon,
            senders=len(ends),
            asked_rate=self._plan.rate,
            rate=sent / len(ends) / seconds,
            seconds=seconds,
            messages_per_call=sent / max(sum(end["calls"] for end in ends), 1),
            slowest_call_seconds=max(end["slowest_seconds"] for end in ends),
            sender_cpu_us=sum(end["cpu_seconds"] for end in ends) / max(sent, 1) * 1e6,
            load_average=os.getloadavg()[1],
            failover_bound_seconds=self._plan.failover_bound_seconds,
            failed=self._failed(),
            diverted=sum(end["diverted"] for end in ends),
            left_over=left_over,
            verdict=verdict,
            outages=self._outages,
        )


def _secret_file(site: Site, folder: Path) -> str:
    """Where its connection string is, which is a secret, as servers are told it."""
    file = folder / f"{site.name}.connection"
    file.write_text(site.connection_string)
    return f"file:{file}"


def _pair_config(plan: Plan, primary_file: str) -> str:
    """Of a secondary that runs the syphon, if it does."""
    if plan.syphon is not SyphonHost.SERVER:
        return ""
    return f"""\
[pair]
primary = "{primary_file}"
primary_name = "{PRIMARY}"
backlog_queue_count = {plan.backlog_queues}
"""


async def measure_load(plan: Plan) -> LoadResult:
    """Run it in a folder of its own, which is removed."""
    with tempfile.TemporaryDirectory(prefix="bench-pairing-") as folder:
        run = LoadRun(plan, Path(folder))
        try:
            return await run.measure()
        except ProcessFailed:
            _say(run.errors())
            raise


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
