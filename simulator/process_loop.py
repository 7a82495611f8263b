"""Several simulated processes on one virtual loop: each can freeze, wake up and end.

A process is a context: what runs in it, and all tasks and timers that come of that,
belong to it. While it is frozen, nothing of it runs; what becomes due waits, and runs
when the process wakes up, as after SIGSTOP and SIGCONT. Of one that has ended nothing
runs any more, no `except` and no `finally`.
"""

import asyncio
import heapq
import inspect
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any, Final, TypeVar

from simulator.loop import VirtualLoop
from twinbus.clock import Clock
from twinbus.store.process_identity import ProcessIdentity

T = TypeVar("T")

_START: Final = 1_800_000_000_000

_ROUNDS: Final = 10
"""Some tasks wait for others when they are cancelled."""

_running: ContextVar["SimulatedProcess | None"] = ContextVar("running", default=None)

OUTSIDE: Final = Context()
"""Where what belongs to no process runs: servers of databases, the network."""


def running_process() -> "SimulatedProcess":
    """The process whose code this is."""
    process = _running.get()
    assert process is not None
    return process


class ProcessClock(Clock):
    """The clocks of a machine. They run as fast as its quartz does; that of the day is
    set now and then."""

    def __init__(self, loop: asyncio.AbstractEventLoop, rate: float) -> None:
        self._loop = loop
        self._rate = rate
        self._offset_ms = _START

    def now(self) -> int:
        return self._offset_ms + self.monotonic()

    def monotonic(self) -> int:
        return round(self._loop.time() * 1000 * self._rate)

    def jump(self, by_ms: int) -> None:
        """Somebody sets the time of day."""
        self._offset_ms += by_ms


class SimulatedProcess:
    """One run of a program, on a place that the network knows by its name."""

    def __init__(
        self,
        loop: "ProcessLoop",
        place: str,
        identity: ProcessIdentity,
        clock: ProcessClock,
    ) -> None:
        self._loop = loop
        self.place = place
        self.identity = identity
        self.clock = clock
        self.is_frozen = False
        self.has_ended = False
        # Its machine has lost power: the system tells nobody of its end.
        self.is_silent = False
        self._waiting: list[asyncio.Handle] = []
        # Kept, for a task that is collected as garbage would run its `finally`.
        self._tasks: list[asyncio.Task[Any]] = []
        # Called when it has ended.
        self.on_end: list[Callable[[], None]] = []
        self.context = copy_context()
        self.context.run(_running.set, self)

    @property
    def is_running(self) -> bool:
        """Neither frozen nor ended."""
        return not self.is_frozen and not self.has_ended

    def run(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run this as a task of the process."""
        return self._loop.create_task(work, context=self.context.copy())

    def call(self, callback: Callable[..., object], *given: Any) -> None:
        """Call this soon, in the process."""
        self._loop.call_soon(callback, *given, context=self.context.copy())

    def freeze(self) -> None:
        self.is_frozen = True

    def wake_up(self) -> None:
        self.is_frozen = False
        waiting, self._waiting = self._waiting, []
        self._loop.run_again(waiting)

    def end(self) -> None:
        """As by SIGKILL."""
        if not self.has_ended:
            self.has_ended = True
            self._waiting.clear()
            for tell in self.on_end:
                tell()

    def admits(self, handle: asyncio.Handle) -> bool:
        """Whether a callback of the process may run now."""
        if self.is_frozen and not self.has_ended:
            self._waiting.append(handle)
        return self.is_running

    def keep(self, task: asyncio.Task[Any]) -> None:
        self._tasks.append(task)

    def give_way(self) -> None:
        """The world ends: its tasks may be cancelled."""
        self.has_ended = self.is_frozen = False


def _is_admitted(handle: asyncio.Handle, context: Context) -> bool:
    process = context.get(_running)
    return process is None or process.admits(handle)


class _Handle(asyncio.Handle):
    """A callback that runs only if its process does."""

    __slots__ = ()
    _context: Context

    def _run(self) -> None:
        if _is_admitted(self, self._context):
            super()._run()


class _TimerHandle(asyncio.TimerHandle):
    """A timer whose callback runs only if its process does."""

    __slots__ = ()
    _context: Context
    _scheduled: bool

    def _run(self) -> None:
        if _is_admitted(self, self._context):
            super()._run()


class ProcessLoop(VirtualLoop):
    """The loop that all simulated processes share."""

    _ready: Any
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self) -> None:
        super().__init__()
        self._processes: list[SimulatedProcess] = []
        # Set by the network: connects from the process that runs.
        self.connect: Callable[..., Coroutine[Any, Any, Any]] | None = None
        self.set_task_factory(self._new_task)

    def add(self, process: SimulatedProcess) -> None:
        self._processes.append(process)

    @staticmethod
    def _new_task(
        loop: asyncio.AbstractEventLoop, work: Any, context: Context | None = None
    ) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, context=context)
        process = (copy_context() if context is None else context).get(_running)
        if process is not None:
            process.keep(task)
        return task

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = _TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._scheduled, timer)
        timer._scheduled = True
        return timer

    def run_again(self, waiting: list[asyncio.Handle]) -> None:
        """What became due while its process was frozen."""
        self._ready.extend(waiting)

    async def create_connection(  # type: ignore[override]
        self, factory: Any, *given: Any, **named: Any
    ) -> Any:
        """Over the simulated network."""
        assert self.connect is not None
        return await self.connect(factory, *given[:2])

    async def end_all(self) -> None:
        """The world is over: cancel the tasks of all processes."""
        self.set_exception_handler(lambda loop, context: None)
        for process in self._processes:
            process.give_way()
        for _ in range(_ROUNDS):
            for task in asyncio.all_tasks(self) - {asyncio.current_task(self)}:
                task.cancel()
            await asyncio.sleep(0)
        for task in asyncio.all_tasks(self) - {asyncio.current_task(self)}:
            # Its process ended before it began, so it does not see its cancellation.
            work = task.get_coro()
            if inspect.iscoroutine(work) and work.cr_frame is not None:
                if inspect.getcoroutinestate(work) == inspect.CORO_CREATED:
                    work.close()
