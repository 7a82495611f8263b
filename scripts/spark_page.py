"""Writes the parts of docs/howto/spark.md that are made from the code.

The page is written by hand, but for what stands between two lines of the form

    <!-- made by scripts/spark_page.py: NAME -->
    <!-- end of NAME -->

A test compares the page with what this would write, so that the tables of options and
columns cannot fall behind the code.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from twinbus.spark.connection import CONNECTION_OPTIONS
from twinbus.spark.read_options import READ_OPTIONS, read_options
from twinbus.spark.schema import COLUMNS
from twinbus.spark.write_options import WRITE_OPTIONS

PAGE = Path(__file__).parents[1] / "docs" / "howto" / "spark.md"

CONNECTION = {
    "credential": "`env:NAME` or `file:/PATH`: where the connection string is; the "
    "driver and each executor read it",
    "connectionString": "the connection string itself, instead of `credential`",
    "namespace": "address of the bus's HTTP listener, if it differs from that of the "
    "connection string: `https://HOST:PORT`",
    "caFile": "authorities to trust instead of the system's; a file on every host",
}

MEANINGS = {
    "entity": "the path as it was read, without the sub-queue",
    "subqueue": "`deadletter`, `transferdeadletter`, or null",
    "partition": "partition of a partitioned entity; otherwise 0",
    "sequence_number": "unique and rising in an entity",
    "state": "active, deferred or scheduled",
    "application_properties": "values as texts",
    "application_property_types": "their AMQP types, of those that are not strings; "
    "else null",
    "body": "the bytes of the data section; an AMQP value as text or JSON",
    "amqp_types": "AMQP types of a `message_id` or `correlation_id` that is not a "
    "string, and of a `body` that is not data; else null",
    "size_bytes": "of the whole message",
    "raw": "the whole message as AMQP bytes, with `includeRaw`",
}
"""Of columns whose name does not say everything."""


def read_table() -> str:
    defaults = read_defaults()
    return table(
        ("Option", "Default", "Meaning"),
        (
            (f"`{name}`", defaults.get(name, ""), READ_OPTIONS[name])
            for name in READ_OPTIONS
        ),
    )


def read_defaults() -> dict[str, str]:
    """As the code has them, of a stream without any option but those it must have."""
    read = read_options({"credential": "env:BUS", "entities": "a"}, is_stream=True)
    wait_ms = read.lease_wait_ms - read.lease_ms
    return {
        "settlement": str(read.settlement),
        "maxMessagesPerBatch": f"{read.max_messages:,}",
        "maxBytesPerBatch": f"{read.max_bytes >> 20}m",
        "failOnDataLoss": "auto: true, but for browse",
        "startingPosition": "latest" if read.starts_with_latest else "earliest",
        "columns": "all",
        "includeRaw": "false",
        "states": ", ".join(read.states),
        "maxPartitions": "twice the driver's cores",
        "leaseDuration": f"{read.lease_ms // 1000}s",
        "leaseWait": f"`leaseDuration` and {wait_ms // 1000}s",
        "alignment": "time" if read.is_aligned else "none",
        "adoptDeferred": "all" if read.adopts_deferred else "own",
        "timeout": f"{read.patience_ms // 60_000}m",
    }


def write_table() -> str:
    return table(
        ("Option", "Meaning"),
        ((f"`{name}`", meaning) for name, meaning in WRITE_OPTIONS.items()),
    )


def connection_table() -> str:
    return table(
        ("Option", "Meaning"),
        ((f"`{name}`", CONNECTION[name]) for name in CONNECTION_OPTIONS),
    )


def column_table() -> str:
    return table(
        ("Column", "Type", ""),
        (
            (f"`{name}`", kind.simpleString(), MEANINGS.get(name, ""))
            for name, kind in COLUMNS.items()
        ),
    )


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = tuple(head)
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


PARTS: Mapping[str, Callable[[], str]] = {
    "reading": read_table,
    "writing": write_table,
    "connection": connection_table,
    "columns": column_table,
}

_PART = re.compile(
    r"(<!-- made by scripts/spark_page\.py: (\w+) -->\n).*?(<!-- end of \2 -->)",
    re.DOTALL,
)


def page() -> str:
    return _PART.sub(lambda m: f"{m[1]}{PARTS[m[2]]()}{m[3]}", PAGE.read_text())


if __name__ == "__main__":
    PAGE.write_text(page())
