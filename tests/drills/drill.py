"""A drill: clients at work, one disaster after the other, and an audit at the end."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from brokers.processes import Brokers, until
from crash import messages
from crash.ledger import Found

from twinbus.client.errors import ClientError
from twinbus.config.config import local_connection_string
from twinbus.errors import ServiceBusError

from .books import Audit
from .clients import SdkClient
from .disasters import DISASTERS, follow_again
from .ending import end_tasks, within
from .entities import ENTITIES, RING
from .probes import entities_in, until_answering
from .ring import Ring
from .sites import Site, site

ANSWER_SECONDS = 10.0
"""Within so long every entity must answer again, where nothing else runs."""

_PATIENCE_SECONDS = 60.0
_CALL_SECONDS = 30.0
_MANY = 1_000_000
_GOING_COUNT = 10
"""So many messages are acknowledged to each client between two disasters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What was seen of one disaster."""

    what: str
    store_count: int
    # Seconds until each entity that was hit answered a probe again.
    answered: dict[str, float]
    # Seconds until each client of the SDK had sent, and received, again.
    went_on: dict[str, float]


@dataclass(slots=True)
class Report:
    """What a drill has found."""

    rounds: list[Round] = field(default_factory=list)
    audit: Audit = field(default_factory=Audit)
    acknowledged_count: int = 0
    unacknowledged_count: int = 0
    transaction_count: int = 0
    hung_count: int = 0
    # Errors that clients were shown, by name.
    troubles: dict[str, int] = field(default_factory=dict)

    def is_good(self, limit_seconds: float) -> bool:
        """Every entity answered again within that time, too."""
        return self.audit.is_clean() and all(
            seconds <= limit_seconds
            for one in self.rounds
            for seconds in one.answered.values()
        )


class Drill:
    """One run."""

    def __init__(self, place: Site, kind: str, random: Random) -> None:
        self._site = place
        self._disaster = DISASTERS[kind]
        self._random = random
        self._clients: list[SdkClient] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._ring = Ring(place.brokers)
        self.report = Report()

    @property
    def _brokers(self) -> Brokers:
        return self._site.brokers

    async def run(self, round_count: int, tell: Callable[[str], None]) -> Report:
        """Raises TimeoutError if something does not come back at all."""
        await self._site.start()
        text = local_connection_string(
            "127.0.0.1", self._brokers.port, self._brokers.root_key
        )
        self._clients = [SdkClient(entity, text) for entity in ENTITIES]
        await self._ring.begin()
        going = asyncio.create_task(self._ring.run())
        self._tasks = [asyncio.create_task(one.run()) for one in self._clients]
        try:
            for number in range(round_count):
                await self._until_going(tell)
                await self._round(number + 1, tell)
            await self._until_going(tell)
            await self._drain()
            await end_tasks([going])
            await self._audit()
        finally:
            await end_tasks([going, *self._tasks])
        return self.report

    # --- a round --------------------------------------------------------------

    async def _until_going(self, tell: Callable[[str], None]) -> None:
        """All clients send, receive and commit."""
        wanted = [self._progress(client) + _GOING_COUNT for client in self._clients]
        steps = self._ring.step_count + _GOING_COUNT

        async def are_going() -> bool:
            for task in self._tasks:
                if task.done():
                    task.result()  # a bug of this drill
            done = [self._progress(client) for client in self._clients]
            return (
                all(have >= want for have, want in zip(done, wanted, strict=True))
                and self._ring.step_count >= steps
            )

        try:
            await until(are_going, _PATIENCE_SECONDS)
        except TimeoutError:
            done = {one.entity.path: self._progress(one) for one in self._clients}
            tell(f"not all go on: {done}, {self._ring.step_count} transactions")
            raise

    def _progress(self, client: SdkClient) -> int:
        settled = (
            sum(copy.settled_at > 0 for copy in book.copies.values())
            for book in client.received
        )
        return min(client.sent.acknowledged_count(), *settled)

    async def _round(self, number: int, tell: Callable[[str], None]) -> None:
        placements = await self._brokers.placements()
        for client in self._clients:
            client.round_number = number
        blow = await self._disaster(self._site, self._random)
        self._ask_since(blow.struck_at)
        paths = entities_in(placements, blow.stores)
        found = await until_answering(self._brokers, paths, _PATIENCE_SECONDS)
        await until(self._have_gone_on, _PATIENCE_SECONDS)
        names = self._site.names()
        await until(lambda: self._brokers.owns_all(*names), _PATIENCE_SECONDS)
        await follow_again(self._site)
        done = Round(
            what=blow.what,
            store_count=len(blow.stores),
            answered={path: at - blow.struck_at for path, at in found.items()},
            went_on={
                name: at - blow.struck_at for name, at in self._went_on() if at > 0
            },
        )
        self.report.rounds.append(done)
        tell(f"round {number}: {row_of(done)}")

    def _ask_since(self, at: float) -> None:
        self._ring.asked_since = at
        for client in self._clients:
            client.asked_since = at
            client.answered_at = {}

    async def _have_gone_on(self) -> bool:
        return all(
            len(client.answered_at) == 1 + len(client.received)
            for client in self._clients
        )

    def _went_on(self) -> Iterator[tuple[str, float]]:
        for client in self._clients:
            for what, at in client.answered_at.items():
                yield f"{client.entity.path} {what}", at

    # --- the end --------------------------------------------------------------

    async def _drain(self) -> None:
        """Nothing more is sent, and all that is there is received."""
        await asyncio.gather(*(client.stop_sending() for client in self._clients))

        left = await self._left()
        while left > 0:
            left = await self._fewer_than(left)

    async def _fewer_than(self, before: int) -> int:
        """Wait until there are fewer messages left; how many there are."""
        found = before

        async def are_fewer() -> bool:
            nonlocal found
            found = await self._left()
            return found < before

        await until(are_fewer, _PATIENCE_SECONDS)
        return found

    async def _left(self) -> int:
        return sum([await self._count(path) for path in _sources()])

    async def _count(self, path: str) -> int:
        """How many messages are there. Very many, if that cannot be told."""
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                return len(await self._peek_all(path))
        except (ClientError, ServiceBusError, OSError):
            return _MANY

    async def _peek_all(self, path: str) -> list[Found]:
        async with await self._brokers.connect_to_any() as connection:
            return await messages.peek_all(connection, path)

    async def _audit(self) -> None:
        report = self.report
        for client in self._clients:
            for book in client.received:
                report.audit.compare(client.sent, book)
            attempts = client.sent.attempts.values()
            acknowledged = client.sent.acknowledged_count()
            report.acknowledged_count += acknowledged
            report.unacknowledged_count += len(attempts) - acknowledged
            report.hung_count += client.hung_count
            for name, count in client.troubles.items():
                report.troubles[name] = report.troubles.get(name, 0) + count
        async with asyncio.timeout(_CALL_SECONDS):
            found = await self._peek_all(RING)
        report.audit.broken += self._ring.audit([one.name for one in found])
        report.transaction_count = self._ring.step_count


def _sources() -> list[str]:
    return [path for entity in ENTITIES for path in entity.sources()]


def row_of(done: Round) -> str:
    """For people."""
    answered = sorted(done.answered.values())
    went_on = sorted(done.went_on.values())
    return (
        f"{done.what}; {done.store_count} stores; {len(answered)} entities answer "
        f"after {_spread(answered)} s; SDK clients go on after {_spread(went_on)} s"
    )


def _spread(seconds: list[float]) -> str:
    if not seconds:
        return "-"
    return f"{seconds[len(seconds) // 2]:.1f} (at most {seconds[-1]:.1f})"


async def run_drill(
    folder: Path,
    *,
    kind: str,
    stores: str,
    round_count: int,
    seed: int,
    patience_seconds: float,
    tell: Callable[[str], None],
) -> Report:
    """Raises TimeoutError, PostgresMissing."""
    with ExitStack() as stack:
        place = await asyncio.to_thread(stack.enter_context, site(folder, stores))
        begun_at = time.monotonic()
        drill = Drill(place, kind, Random(seed))
        report = await within(patience_seconds, drill.run(round_count, tell), tell)
        tell(f"{time.monotonic() - begun_at:.0f} s in all")
        return report
