"""What the bench of Spark found: values, tables, and whether it is good enough."""

from dataclasses import dataclass, field
from statistics import median
from typing import Any

from bench.tables import markdown_table

ARROW = "Spark over Arrow"
HEADER = "Spark over Arrow, header columns"
PEEK = "SDK over AMQP, peek"
RECEIVE = "SDK over AMQP, receive and delete"

SPARK_JOB = "Spark job"
IN_PROCESS = "in-process syphon"

READING_BAR = 8.0
"""Times that Spark over Arrow is faster than the SDK over AMQP, at least."""

GROWTH_BAR = 1.15
"""What memory may be in the last quarter of a drain, to that of the second one."""


@dataclass(frozen=True, slots=True)
class ReadingResult:
    """One reader; a figure for each round."""

    reader: str
    messages: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    # Of all processes that take part, the bus included.
    cpu_seconds: list[float] = field(default_factory=list)

    @property
    def cpu_us(self) -> list[float]:
        """For each message."""
        pairs = zip(self.cpu_seconds, self.messages, strict=True)
        return [seconds / count * 1e6 for seconds, count in pairs]

    @property
    def rates(self) -> list[float]:
        return [n / s for n, s in zip(self.messages, self.seconds, strict=True)]


def ratios(results: list[ReadingResult], reader: str) -> list[float]:
    """How much faster Arrow was than a reader, round by round."""
    by_name = {one.reader: one.rates for one in results}
    return [a / b for a, b in zip(by_name[ARROW], by_name[reader], strict=True)]


def reading_faults(results: list[ReadingResult]) -> list[str]:
    found = []
    for reader in (PEEK, RECEIVE):
        ratio = median(ratios(results, reader)) if results else READING_BAR
        if ratio < READING_BAR:
            found.append(f"{ARROW} is {ratio:.1f} times as fast as {reader}")
    return found


@dataclass(frozen=True, slots=True)
class Sample:
    """Memory of all that takes part, without pages of files."""

    at: float
    bus_bytes: int
    jvm_bytes: int
    python_bytes: int


@dataclass(frozen=True, slots=True)
class DrainedResult:
    """A queue drained by a stream."""

    messages: int
    seconds: float
    # Rows of each batch.
    batches: list[int]
    left: int
    # When the first batch was done, in seconds: all is loaded and connected then.
    warm_at: float
    samples: list[Sample]

    def faults(self) -> list[str]:
        found = []
        if (sum(self.batches), self.left) != (self.messages, 0):
            found.append(f"{sum(self.batches)} read, {self.left} left")
        for name in PARTS:
            growth = self.growth(name)
            if growth > GROWTH_BAR:
                found.append(f"memory of {PARTS[name]} grew {growth:.2f} times")
        return found

    def quarter(self, name: str, number: int) -> float:
        """Median of what a part held in a quarter of the time, in bytes."""
        warm = [sample for sample in self.samples if sample.at >= self.warm_at]
        size = len(warm) / 4
        part = warm[int(number * size) : int((number + 1) * size)]
        return median(getattr(sample, name) for sample in part)

    def growth(self, name: str) -> float:
        """From the second quarter on: the first still warms up."""
        return self.quarter(name, 3) / self.quarter(name, 1)


PARTS = {
    "bus_bytes": "the bus",
    "jvm_bytes": "the JVM",
    "python_bytes": "Python of Spark",
}
"""What memory is of, by the name of the field."""


@dataclass(frozen=True, slots=True)
class SyphonResult:
    """A backlog brought back, once for each round."""

    syphon: str
    messages: int
    rates: list[float] = field(default_factory=list)


def reading_table(results: list[ReadingResult]) -> str:
    columns = (
        *("reader", "messages", "rounds", "msg/s", "spread", "Arrow to it", "spread"),
        "CPU us/msg",
    )
    rows = []
    for one in results:
        to_it = ratios(results, one.reader)
        rows.append(
            (
                one.reader,
                f"{one.messages[0]:,}",
                f"{len(one.rates)}",
                *_spread(one.rates, ",.0f"),
                *_spread(to_it, ".1f"),
                f"{median(one.cpu_us):.0f}",
            )
        )
    return markdown_table(columns, rows)


def drained_table(results: list[DrainedResult]) -> str:
    columns = ("messages", "batches", "s", "msg/s", "read", "left")
    rows = [
        (
            f"{one.messages:,}",
            f"{len(one.batches)}",
            f"{one.seconds:.0f}",
            f"{one.messages / one.seconds:,.0f}",
            f"{sum(one.batches):,}",
            f"{one.left}",
        )
        for one in results
    ]
    return markdown_table(columns, rows)


def memory_table(results: list[DrainedResult]) -> str:
    columns = (
        "memory of",
        *(f"quarter {n} MB" for n in range(1, 5)),
        "peak MB",
        "4 to 2",
    )
    rows = [
        (
            title,
            *(f"{one.quarter(name, n) / 2**20:,.0f}" for n in range(4)),
            f"{max(getattr(sample, name) for sample in one.samples) / 2**20:,.0f}",
            f"{one.growth(name):.2f}",
        )
        for one in results
        for name, title in PARTS.items()
    ]
    return markdown_table(columns, rows)


def syphon_table(results: list[SyphonResult]) -> str:
    columns = ("syphon", "messages", "rounds", "msg/s", "spread", "to in-process")
    base = {one.syphon: one.rates for one in results}.get(IN_PROCESS, [])
    rows = [
        (
            one.syphon,
            f"{one.messages:,}",
            f"{len(one.rates)}",
            *_spread(one.rates, ",.0f"),
            f"{median(a / b for a, b in zip(one.rates, base, strict=True)):.2f}",
        )
        for one in results
    ]
    return markdown_table(columns, rows)


def _spread(figures: list[float], form: str) -> tuple[str, str]:
    return f"{median(figures):{form}}", f"{min(figures):{form}}..{max(figures):{form}}"


def read_drained(content: list[dict[str, Any]]) -> list[DrainedResult]:
    return [
        DrainedResult(**{**one, "samples": [Sample(**s) for s in one["samples"]]})
        for one in content
    ]
