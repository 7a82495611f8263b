"""A syphon as a process: progress while it runs, a summary at its end.

Progress goes to stderr, and only to a terminal; the summary is the answer, on stdout.
"""

import asyncio
import json
import logging
import signal
import sys
from collections.abc import Awaitable
from dataclasses import asdict, dataclass
from typing import Any, Final

from rich.console import Console
from rich.live import Live

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.cli.log_lines import LogLine
from twinbus.clock import SystemClock
from twinbus.pairing.coverage import covers_any
from twinbus.pairing.own.address import parse_address
from twinbus.pairing.primary_name import primary_name as name_of
from twinbus.pairing.syphon.errors import PrimaryAway, SecondaryError
from twinbus.pairing.syphon.ports import Engine
from twinbus.pairing.syphon.service import SyphonService
from twinbus.pairing.syphon.settings import SyphonSettings
from twinbus.pairing.syphon.syphon import Syphon
from twinbus.pairing.syphon.tally import SyphonStatus
from twinbus.pairing.syphon_engines import SdkMissing, engine_of_strings

_PROGRESS_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Flags:
    primary_name: str | None
    cover: tuple[str, ...]
    is_once: bool
    counts_backlog: bool
    keeps_order: bool
    is_json: bool


class SyphonCommand:
    """One run of the command."""

    def __init__(self, primary: str, secondary: str, **flags: Any) -> None:
        """Raises Failure."""
        self._strings = primary, secondary
        self._flags = _Flags(**flags)
        self._settings = SyphonSettings(
            covers=covers_any(self._flags.cover),
            count_backlog_against_ttl=self._flags.counts_backlog,
            keeps_order=self._flags.keeps_order,
            until_empty=self._flags.is_once,
        )
        try:
            host = parse_address(primary).host
            parse_address(secondary)
            self._name = name_of(host, self._flags.primary_name)
        except ValueError as error:
            text = str(error).replace("the option primary_name", "--primary-name")
            raise Failure(text, exit_codes.USAGE) from None

    def main(self) -> int:
        """Run it, print the summary. Returns the exit code; raises Failure."""
        log_to_stderr()
        status = asyncio.run(self._main())
        self._print(status)
        # What is left is what a script has to know.
        is_left = status.parked_entities or status.poison
        return exit_codes.BACKLOG if self._flags.is_once and is_left else exit_codes.OK

    async def _main(self) -> SyphonStatus:
        told_to_stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, told_to_stop.set)
        if self._flags.is_once:
            return await self._once(told_to_stop)
        return await self._until_told(told_to_stop)

    async def _open_engine(self) -> Engine[Any]:
        return await engine_of_strings(*self._strings, SystemClock())

    async def _once(self, told_to_stop: asyncio.Event) -> SyphonStatus:
        try:
            syphon = Syphon(await self._open_engine(), self._name, self._settings)
            try:
                await syphon.start()
                await _either(self._shown(syphon.finished(), syphon), told_to_stop)
                return syphon.status()
            finally:
                await syphon.close()
        except PrimaryAway as error:
            raise Failure(str(error), exit_codes.UNREACHABLE) from None
        except SecondaryError as error:
            code = exit_codes.UNREACHABLE
            if error.is_refused:
                code = exit_codes.UNAUTHORIZED
            raise Failure(f"The secondary: {error}", code) from None
        except SdkMissing as error:
            raise Failure(str(error), exit_codes.FAILED) from None

    async def _until_told(self, told_to_stop: asyncio.Event) -> SyphonStatus:
        service = SyphonService(self._open_engine, self._name, self._settings)
        service.start()
        try:
            await self._shown(told_to_stop.wait(), service)
            return service.status()
        finally:
            await service.close()

    async def _shown(
        self, work: Awaitable[Any], syphon: "Syphon[Any] | SyphonService"
    ) -> None:
        """Show progress until the work is done; raises what it does."""
        task = asyncio.ensure_future(work)
        console = Console(stderr=True)
        try:
            if not console.is_terminal or self._flags.is_json:
                await task
                return
            with Live(console=console, auto_refresh=False, transient=True) as live:
                while not task.done():
                    live.update(_line(syphon.status()), refresh=True)
                    await asyncio.wait((task,), timeout=_PROGRESS_SECONDS)
            await task
        finally:
            task.cancel()

    def _print(self, status: SyphonStatus) -> None:
        if self._flags.is_json:
            print(json.dumps(asdict(status), indent=2))
            return
        print(
            f"{status.restored} restored, {status.poison} dead-lettered, from "
            f"{len(status.queues)} backlog queues of '{self._name}'."
        )
        for path in status.parked_entities:
            print(f"parked: {path}")
        for text in status.trouble:
            print(f"trouble: {text}")


def _line(status: SyphonStatus) -> str:
    parked = len(status.parked_entities)
    away = "" if status.is_primary_reachable or not status.engine else ", primary away"
    return (
        f"{status.restored} restored ({status.rate:.0f}/s), {status.poison} "
        f"dead-lettered, {parked} entities parked{away}"
    )


async def _either(work: Awaitable[None], told_to_stop: asyncio.Event) -> None:
    """Until the work is done, or somebody says stop."""
    task = asyncio.ensure_future(work)
    stop = asyncio.ensure_future(told_to_stop.wait())
    await asyncio.wait((task, stop), return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    if task.done():
        await task
        return
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def log_to_stderr() -> None:
    """What goes wrong while a command runs, for people."""
    to_stderr = logging.StreamHandler(sys.stderr)
    to_stderr.setFormatter(LogLine())
    logging.basicConfig(level=logging.WARNING, handlers=[to_stderr])
    # The SDK warns of every connection that is lost, which is what we are here for.
    logging.getLogger("azure").setLevel(logging.ERROR)
