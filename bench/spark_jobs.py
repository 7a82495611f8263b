"""`python -m bench.spark_jobs`: meter and audit, beside a plain scan of the same files.

Rounds take turns: a scan of all columns, the audit, the meter. Both jobs may take at
most three times as long as the scan, if the log has five million rows or more: for
smaller ones it is the start of queries that takes the time. The processor time, Spark's
and Python's together, is shown beside it: it depends less on who else uses the machine.
Logs of several sizes show whether memory grows with them: the heap is the same for all,
and small. The exit code says whether it is good enough.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession

from bench.operation_logs import LogOptions, generate
from bench.processes import usage_of_tree
from bench.spark_session import spark_processes, spark_session
from bench.tables import markdown_table
from twinbus.spark.jobs import audit, meter
from twinbus.spark.jobs.operation_rows import read_operations

RATIO_BAR = 3.0
"""Times that a job may take, to a plain scan."""

BAR_ROWS = 5_000_000
"""Of the smallest log that the bar is for."""

GROWTH_BAR = 1.5
"""What memory may be with the largest log, to that with the smallest one."""

_FAULTS = {"losses": 34, "duplicates": 33, "misroutings": 33}


@dataclass(frozen=True, slots=True)
class Taken:
    """What one run took."""

    seconds: float
    cpu_seconds: float


def taken(work: Callable[[], object]) -> Taken:
    began, used = time.monotonic(), _cpu_seconds()
    work()
    return Taken(time.monotonic() - began, _cpu_seconds() - used)


def _cpu_seconds() -> float:
    return usage_of_tree(os.getpid()).cpu_seconds


def jvm_bytes() -> int:
    """The most memory that the JVM has had."""
    pid, _ = spark_processes()
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the JVM has no VmHWM")


def measure(spark: SparkSession, rows: int, rounds: int) -> tuple[list[str], list[str]]:
    """A line of the table, and what is not good enough."""
    with tempfile.TemporaryDirectory(prefix="bench-logs-") as folder:
        options = LogOptions(rows=rows, seed=rows, **_FAULTS)
        made = generate(Path(folder) / "logs", options)
        logs = tuple(str(one) for one in made.folders)
        found: list[audit.AuditSummary] = []

        def scan() -> None:
            read_operations(spark, logs).write.format("noop").mode("overwrite").save()

        def audited() -> None:
            found.append(audit.run(spark, audit.AuditOptions(logs=logs)))

        def metered() -> None:
            meter.run(spark, meter.MeterOptions(logs=logs))

        # The first round loads classes and compiles code.
        for work in (scan, audited, metered):
            work()
        jobs = {"scan": scan, "audit": audited, "meter": metered}
        runs: dict[str, list[Taken]] = {name: [] for name in jobs}
        for _ in range(rounds):
            for name, work in jobs.items():
                runs[name].append(taken(work))
    pairs = {
        name: list(zip(runs[name], runs["scan"], strict=True))
        for name in ("audit", "meter")
    }
    ratios = {
        name: median(one.seconds / scanned.seconds for one, scanned in pair)
        for name, pair in pairs.items()
    }
    cpu_ratios = {
        name: median(one.cpu_seconds / scanned.cpu_seconds for one, scanned in pair)
        for name, pair in pairs.items()
    }
    faults = [
        f"{name} of {made.rows:,} rows takes {ratio:.1f} times as long as a scan"
        for name, ratio in ratios.items()
        if ratio > RATIO_BAR and made.rows >= BAR_ROWS
    ]
    planted = {(one.kind, one.message_uid) for one in made.planted}
    if {(one.finding, one.message_uid) for one in found[-1].findings} != planted:
        faults.append(f"the audit of {made.rows:,} rows did not find what was planted")
    line = [f"{made.rows:,}", f"{rounds}"]
    line += [f"{median(one.seconds for one in runs[name]):.1f}" for name in jobs]
    line += [f"{ratio:.2f}" for ratio in ratios.values()]
    line += [f"{median(one.cpu_seconds for one in runs[name]):.1f}" for name in jobs]
    line += [f"{ratio:.2f}" for ratio in cpu_ratios.values()]
    return [*line, f"{jvm_bytes() / 2**20:,.0f}"], faults


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.spark_jobs", description=__doc__
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 5_000_000])
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    lines, faults, memory = [], [], []
    # One JVM, the smallest log first: what its peak grows by is due to larger ones.
    with spark_session() as spark:
        for rows in sorted(given.rows):
            line, wrong = measure(spark, rows, given.rounds)
            memory.append(jvm_bytes())
            lines.append(line)
            faults += wrong
            print(" ".join(line), file=sys.stderr, flush=True)
    columns = (
        *("rows", "rounds", "scan s", "audit s", "meter s"),
        *("audit to scan", "meter to scan"),
        *("scan CPU s", "audit CPU s", "meter CPU s"),
        *("audit to scan, CPU", "meter to scan, CPU", "JVM peak MB"),
    )
    print(markdown_table(columns, lines))
    if memory[-1] > memory[0] * GROWTH_BAR:
        faults.append(f"memory grew {memory[-1] / memory[0]:.2f} times")
    for fault in faults:
        print(f"not good enough: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
