"""Runs a Spark syphon: shows progress while it runs, and a summary at its end.

Progress goes to stderr, and only if that is a terminal. The summary goes to stdout.
"""

import json
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.cli.spark.session import said, started_session
from twinbus.cli.syphon_run import log_to_stderr
from twinbus.client.address import parse_address
from twinbus.pairing.primary_name import primary_name as name_of
from twinbus.spark.option_reader import OptionError, OptionReader
from twinbus.spark.secret import Secret
from twinbus.spark.syphon.advice import advice, cores_of
from twinbus.spark.syphon.backlog import Backlog
from twinbus.spark.syphon.errors import SideAway, SideRefuses, SyphonError
from twinbus.spark.syphon.options import SyphonOptions
from twinbus.spark.syphon.running import SyphonRun
from twinbus.spark.syphon.sides import check_sides, told
from twinbus.spark.syphon.summary import Summary

_LONGEST_MS = 7 * 24 * 3_600_000

_NOBODY = "advice"
"""A reader that never holds a lease: it looks, and takes nothing."""


def syphon_options(sides: tuple[str, str], **flags: Any) -> SyphonOptions:
    """The options that the flags ask for. Raises Failure."""
    primary, secondary = sides
    try:
        host = parse_address(Secret.parse("primary", primary).reveal()).host
        parse_address(Secret.parse("secondary", secondary).reveal())
        name = name_of(host, flags.pop("primary_name"))
    except ValueError as error:
        text = str(error).replace("the option primary_name", "--primary-name")
        raise Failure(text, exit_codes.USAGE) from None
    grace_ms = _milliseconds("missing-entity-grace", flags.pop("missing_entity_grace"))
    timeout_ms = _milliseconds("timeout", flags.pop("timeout"), least_ms=1_000)
    return SyphonOptions(
        primary=primary,
        secondary=secondary,
        primary_name=name,
        missing_entity_grace_ms=grace_ms,
        timeout_ms=timeout_ms,
        **flags,
    )


def _milliseconds(flag: str, text: str, least_ms: int = 0) -> int:
    try:
        return OptionReader({flag: text}).milliseconds(flag, least_ms, _LONGEST_MS, 0)
    except OptionError as error:
        raise Failure(f"--{flag}: {error}", exit_codes.USAGE) from None


class SparkSyphonRun:
    """One run of the command."""

    def __init__(
        self,
        options: SyphonOptions,
        master: str,
        conf: Sequence[str],
        *,
        is_json: bool,
    ) -> None:
        self._options = options
        self._master = master
        self._conf = conf
        self._is_json = is_json

    def main(self) -> int:
        """Run it, print the summary. Returns the exit code; raises Failure."""
        log_to_stderr()
        self._check_sides()
        self._advise()
        name = f"twinbus syphon of {self._options.primary_name}"
        with started_session(name, self._master, self._conf) as spark:
            summary = self._run(spark)
        self._print(summary)
        is_left = summary.is_backlog_left and not self._options.is_continuous
        return exit_codes.BACKLOG if is_left else exit_codes.OK

    def _check_sides(self) -> None:
        """Check both sides before Spark is started, which takes a while."""
        with _failures():
            try:
                check_sides(self._options)
            except SideAway:
                # The run waits for it.
                if not self._options.is_continuous:
                    raise

    def _advise(self) -> None:
        """Say so if the other syphon is quicker, before Spark is started."""
        if self._is_json or self._options.is_continuous:
            return
        with _failures(), told("secondary"):
            backlog = Backlog(self._options, _NOBODY)
            try:
                look = backlog.look()
            finally:
                backlog.close()
        count = sum(queue.active_count for queue in look.values())
        sentence = advice(count, cores_of(self._master))
        if sentence is not None:
            print(sentence, file=sys.stderr)

    def _run(self, spark: SparkSession) -> Summary:
        with _Progress(self._is_json) as progress, _failures():
            run = SyphonRun(spark, self._options, progress.show)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: run.stop())
            return run.main()

    def _print(self, summary: Summary) -> None:
        if self._is_json:
            content = {**asdict(summary), "rate": round(summary.rate, 1)}
            print(json.dumps(content, indent=2))
            return
        dead = sum(summary.dead_lettered.values())
        parked = sum(summary.parked.values())
        print(
            f"{summary.restored} restored, {summary.known} known already, {dead} "
            f"dead-lettered, {parked} parked, {summary.left} left, from "
            f"{len(summary.queues)} backlog queues of '{summary.primary_name}' in "
            f"{summary.seconds:.1f} s ({summary.rate:.0f}/s)."
        )
        for reason, count in summary.dead_lettered.items():
            print(f"dead-lettered: {count} as {reason}")
        for path, count in summary.parked.items():
            print(f"parked: {count} of {path or 'an unknown entity'}")


@contextmanager
def _failures() -> Iterator[None]:
    """Turns errors that end a run into a Failure."""
    try:
        yield
    except SideAway as error:
        raise Failure(str(error), exit_codes.UNREACHABLE) from None
    except SideRefuses as error:
        raise Failure(str(error), exit_codes.UNAUTHORIZED) from None
    except SyphonError as error:
        raise Failure(str(error), exit_codes.FAILED) from None
    except (PySparkException, Py4JError) as error:
        raise Failure(f"Spark: {said(error)}", exit_codes.FAILED) from None


class _Progress:
    """A progress bar, if stderr is a terminal."""

    def __init__(self, is_json: bool) -> None:
        console = Console(stderr=True)
        self._bar: Progress | None = None
        if console.is_terminal and not is_json:
            columns = ("{task.description}", "{task.completed}/{task.total}")
            self._bar = Progress(
                TextColumn(columns[0]),
                BarColumn(),
                TextColumn(columns[1]),
                TimeElapsedColumn(),
                console=console,
                transient=True,
            )
            self._task = self._bar.add_task("starting", total=None)

    def __enter__(self) -> "_Progress":
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, summary: Summary) -> None:
        if self._bar is None:
            return
        dead = sum(summary.dead_lettered.values())
        parked = sum(summary.parked.values())
        done = summary.restored + summary.known + dead + parked
        self._bar.update(
            self._task,
            description=f"{summary.restored} restored ({summary.rate:.0f}/s), {dead} "
            f"dead-lettered, {len(summary.parked)} entities parked",
            completed=done,
            total=max(summary.found, done) or None,
        )
