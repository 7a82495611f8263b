"""A pair: two namespaces, and what all senders of a process share of them.

It has the health of entities, the rotation of backlog queues and the tasks that ping,
and tells listeners what happens. It knows no SDK and no type of message: adapters do.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any, Generic

from twinbus.clock import Clock
from twinbus.pairing.entity_health import State
from twinbus.pairing.events import EventKind, PairEvent
from twinbus.pairing.failures import ASKS_FOR_PATIENCE
from twinbus.pairing.paired_entity import PairedEntity
from twinbus.pairing.paired_sender import PairedSender
from twinbus.pairing.pinger import Pinger
from twinbus.pairing.ports import Dialect, M, PairedNamespace
from twinbus.pairing.reporting import ReportListeners
from twinbus.pairing.rotation import Rotation
from twinbus.pairing.send_ids import SendIds
from twinbus.pairing.send_log import SendLog
from twinbus.pairing.session_watch import SessionWatch
from twinbus.pairing.settings import PairSettings
from twinbus.pairing.status import PairStatus

_log = logging.getLogger("twinbus.pairing")


class Pair(Generic[M]):
    """Made within a running event loop, and used from it alone."""

    def __init__(
        self,
        *,
        primary: PairedNamespace[M],
        secondary: PairedNamespace[M],
        dialect: Dialect[M],
        backlog_queues: Sequence[str],
        settings: PairSettings,
        clock: Clock,
        random: Random,
        entropy: Callable[[int], bytes],
        send_log: SendLog | None = None,
    ) -> None:
        self.primary = primary
        self.secondary = secondary
        self.dialect = dialect
        self.settings = settings
        self.clock = clock
        self.rotation = Rotation(backlog_queues, random.choice)
        self.send_ids = SendIds(entropy)
        self.report = ReportListeners()
        # None: nobody wants one.
        self.send_log = send_log
        # Only where the order of sessions is kept.
        self.sessions = SessionWatch(self) if settings.keep_session_order else None
        # By path; case does not matter.
        self._entities: dict[str, PairedEntity] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        # Calls that are under way.
        self._pending: set[asyncio.Task[Any]] = set()
        # The last failure of a backlog queue, for a send that finds no queue to use.
        self._backlog_failure: Exception | None = None
        # Set by `close`: the error of calls from then on.
        self._closed_by: Exception | None = None

    def the_sessions(self) -> SessionWatch[M]:
        assert self.sessions is not None, "order is not kept"
        return self.sessions

    # --- entities -----------------------------------------------------------------

    def sender(
        self, path: str, link: Mapping[str, Any] | None = None
    ) -> PairedSender[M]:
        return PairedSender(self, path, link)

    def entity(self, path: str) -> PairedEntity:
        key = path.lower()
        if key not in self._entities:
            self._entities[key] = PairedEntity(
                path, self.settings.failover_interval_ms, self.clock, self._changed
            )
        return self._entities[key]

    def _changed(self, entity: PairedEntity) -> None:
        state = entity.state
        level = logging.WARNING if state is State.FAILED_OVER else logging.INFO
        is_bad = state in (State.SUSPECT, State.FAILED_OVER)
        why = f": {entity.last_failure}" if is_bad else ""
        _log.log(level, "'%s' is %s%s", entity.path, state.value, why)
        self.report(
            PairEvent(kind=EventKind.STATE_CHANGED, path=entity.path, text=state.value)
        )
        if state is State.FAILED_OVER:
            self.start(Pinger(self, entity).run())

    def asks_for_patience(self, error: Exception) -> bool:
        """Whoever raised it asks to be left alone for ten seconds (A2)."""
        if isinstance(error, TimeoutError):
            return False
        return self.dialect.kind_of(error) in ASKS_FOR_PATIENCE

    # --- backlog queues -------------------------------------------------------------

    def note_taken(self, queue: str) -> None:
        """The queue took messages."""
        if self.rotation.put_back(queue):
            _log.info("backlog queue '%s' is back in rotation", queue)
            self.report(PairEvent(kind=EventKind.BACKLOG_QUEUE_BACK, queue=queue))

    def note_failed(self, queue: str, error: Exception, *, is_busy: bool) -> None:
        """The queue failed: nobody uses it for a while (P8)."""
        settings = self.settings
        pause_ms = settings.busy_wait_ms if is_busy else settings.backlog_retry_ms
        if self.asks_for_patience(error):
            pause_ms = max(pause_ms, settings.busy_wait_ms)
        now = self.clock.monotonic()
        is_news = self.rotation.is_in(queue, now)
        self.rotation.take_out(queue, now + pause_ms, is_busy=is_busy)
        self._backlog_failure = error
        if not is_news:
            return
        why = self._reason_of(error)
        _log.warning("backlog queue '%s' is out of rotation: %s", queue, why)
        self.report(PairEvent(kind=EventKind.BACKLOG_QUEUE_OUT, queue=queue, text=why))

    def no_backlog_queue_left(self) -> Exception:
        """The error of a send while no backlog queue can be used."""
        error = self.dialect.refused(
            f"The primary is away, and none of the {len(self.rotation.queues)} backlog "
            f"queues on '{self.secondary.name}' can be used now{self.backlog_trouble()}"
        )
        error.__cause__ = self._backlog_failure
        return error

    def backlog_trouble(self) -> str:
        """What the last backlog queue that failed said, as the end of a sentence."""
        failure = self._backlog_failure
        return "." if failure is None else f": {self._reason_of(failure)}"

    def _reason_of(self, error: Exception) -> str:
        if isinstance(error, TimeoutError):
            return "it did not answer in time"
        return self.dialect.reason_of(error)

    # --- life -------------------------------------------------------------------------

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a task that ends with the pair."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    @contextmanager
    def pending(self) -> Iterator[None]:
        """For the time of a call: if the pair ends, the call fails with its error."""
        task = asyncio.current_task()
        assert task is not None, "a call is made in a task"
        self._pending.add(task)
        try:
            yield
        except asyncio.CancelledError:
            if task in self._pending:
                raise  # The caller itself was cancelled.
            task.uncancel()
            self.check_open()
            raise
        finally:
            self._pending.discard(task)

    def check_open(self) -> None:
        """Raises the error that the pair was closed with."""
        if self._closed_by is not None:
            raise self._closed_by

    def status(self) -> PairStatus:
        return PairStatus(
            primary=self.primary.name,
            secondary=self.secondary.name,
            entities=tuple(entity.status() for entity in self._entities.values()),
            backlog_queues=self.rotation.queues,
            out_of_rotation=tuple(
                self.rotation.out_of_rotation(self.clock.monotonic())
            ),
        )

    async def close(self, error: Exception | None = None) -> None:
        """End pings. Calls under way and later calls fail, with the error if one is
        given."""
        self._closed_by = error or self.dialect.refused("The pair was closed.")
        for entity in self._entities.values():
            entity.stop()
        calls, self._pending = self._pending, set()
        for call in calls:
            call.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self.send_log is not None:
            # Calls that were cancelled are logged when they run for the last time.
            await asyncio.sleep(0)
            await asyncio.to_thread(self.send_log.close)
