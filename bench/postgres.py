"""`python -m bench.postgres`: what a PostgreSQL store takes, and whether it stays so.

A server of its own is started, synced and with autovacuum on. First the store alone:
commits of messages, and of their removals. Then a whole bus on it, under the load
client: sends, and receives that are confirmed. With `--minutes` it goes on for so long
beside a reader that has read every table and is idle in its transaction. A minute
before it and one after it say how the machine was then.

Other programs may use the machine, so beside the rates there is the CPU time of bus and
database for a message: that is what must not grow.
"""

import argparse
import asyncio
import time
from dataclasses import dataclass
from statistics import median

import psycopg

from bench.load_client import build_client, run_load
from bench.machine import describe_machine
from bench.postgres_server import BENCH_SETTINGS, PostgresServer
from bench.processes import usage_of_tree
from bench.tables import markdown_table
from bench.twinbus_server import TwinbusServer
from twinbus.broker.changes import ChangeSet, FragmentRecord
from twinbus.broker.message import Message
from twinbus.broker.row_id import base_of
from twinbus.store.opening import open_store
from twinbus.store.postgres import PostgresStore

_SIZE = 256
_SECONDS = 5.0
_ROUND_COUNT = 50_000
_SHAPE = ("--size", str(_SIZE), "--connections", "2", "--window", "1000")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Of one run."""

    what: str
    messages_per_second: float
    # Bus and database, for a message.
    cpu_us: float


# --- the store alone ------------------------------------------------------------------


def _changes(batch: int, count: int) -> tuple[ChangeSet, list[int]]:
    base = base_of(1) + batch * count
    changes = ChangeSet()
    for i in range(count):
        message = Message(bytes(_SIZE), 7, 0, 0)
        message.row_id, message.enqueued_at = base + i, 1
        changes.active_added.append(message)
    return changes, [message.row_id for message in changes.active_added]


def _record(batch: int) -> FragmentRecord:
    return FragmentRecord(
        number=1, generation=bytes(16), index=0, sub_queue=0, next_sequence=batch
    )


async def measure_store(server: PostgresServer, per_commit: int) -> list[Rate]:
    """Commits of so many messages, then of their removals."""
    store = PostgresStore(server.url(f"alone_{per_commit}"))
    opened = await open_store(store, "bench", 1)
    commits = max(20, _ROUND_COUNT // per_commit)
    batch, removals, rates = opened.last_batch, [], []
    for what in ("added", "removed"):
        before, begun = _cpu(server), time.perf_counter()
        for i in range(commits):
            batch += 1
            if what == "added":
                changes, row_ids = _changes(i, per_commit)
                removals.append(row_ids)
            else:
                changes = ChangeSet()
                changes.active_removed += removals[i]
            changes.records.append(_record(batch))
            changes.seal(opened.epoch, batch, 1)
            await store.commit(changes)
        seconds = time.perf_counter() - begun
        count = commits * per_commit
        rates.append(
            Rate(
                what=f"store alone, {what}, {per_commit} a commit",
                messages_per_second=count / seconds,
                cpu_us=(_cpu(server) - before) / count * 1e6,
            )
        )
    await store.close()
    return rates


# --- a bus ----------------------------------------------------------------------------


def _cpu(server: PostgresServer, bus: TwinbusServer | None = None) -> float:
    used = usage_of_tree(server.pid).cpu_seconds
    return used + (
        time.process_time() if bus is None else usage_of_tree(bus.pid).cpu_seconds
    )


def _run(
    server: PostgresServer, bus: TwinbusServer, what: str, arguments: list[str]
) -> tuple[Rate, int]:
    before = _cpu(server, bus)
    result = run_load(bus.target, [*arguments, *_SHAPE], is_tls=False)
    cpu = _cpu(server, bus) - before
    rate = Rate(
        what=what,
        messages_per_second=result.messages_per_second,
        cpu_us=cpu / result.messages * 1e6,
    )
    return rate, result.messages


def _both_ways(server: PostgresServer, bus: TwinbusServer) -> list[Rate]:
    """Send for a while; then receive all of it, confirmed."""
    sent, count = _run(server, bus, "bus, sent", ["send", "--duration", str(_SECONDS)])
    arguments = ["receive", "--settle", "confirmed", "--count", str(count)]
    received, _ = _run(server, bus, "bus, received and completed", arguments)
    return [sent, received]


def measure_bus(server: PostgresServer, rounds: int) -> list[Rate]:
    """The medians of some rounds, after one that does not count."""
    with TwinbusServer(store=server.url("bus")) as bus:
        _both_ways(server, bus)
        found = [_both_ways(server, bus) for _ in range(rounds)]
    return [_median([both[way] for both in found]) for way in (0, 1)]


def _median(rates: list[Rate]) -> Rate:
    return Rate(
        what=rates[0].what,
        messages_per_second=median(rate.messages_per_second for rate in rates),
        cpu_us=median(rate.cpu_us for rate in rates),
    )


# --- beside an old snapshot -----------------------------------------------------------


def measure_endurance(server: PostgresServer, minutes: float) -> list[Rate]:
    """Minute by minute, beside a reader that does not end its transaction."""
    with TwinbusServer(store=server.url("endurance")) as bus:
        found = _minute(server, bus, "before the reader")
        with psycopg.connect(server.conninfo) as reader:
            _read_everything(reader, "endurance")
            ends_at = time.monotonic() + 60 * minutes
            while time.monotonic() < ends_at:
                found += _minute(server, bus, f"minute {len(found) // 2}")
                print(_table(found[-2:]), flush=True)
            print(_sizes(server, "endurance"), flush=True)
            reader.rollback()
        # How the machine is by then: others may use it.
        found += _minute(server, bus, "without the reader")
    return found


def _read_everything(
    reader: psycopg.Connection[tuple[object, ...]], schema: str
) -> None:
    """Holds a snapshot from now on, and a lock on every table."""
    reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    tables = reader.execute(
        "SELECT tablename FROM pg_tables WHERE schemaname = %s", (schema,)
    ).fetchall()
    for (table,) in tables:
        reader.execute(f"SELECT count(*) FROM {schema}.{table}")


def _minute(server: PostgresServer, bus: TwinbusServer, when: str) -> list[Rate]:
    ends_at, found = time.monotonic() + 60, []
    while time.monotonic() < ends_at or not found:
        found.append(_both_ways(server, bus))
    medians = [_median([both[way] for both in found]) for way in (0, 1)]
    return [
        Rate(
            what=f"{when}: {one.what}",
            messages_per_second=one.messages_per_second,
            cpu_us=one.cpu_us,
        )
        for one in medians
    ]


def _sizes(server: PostgresServer, schema: str) -> str:
    with psycopg.connect(server.conninfo) as db:
        rows = db.execute(
            "SELECT regexp_replace(relname, '_[0-9_]+$', ''), count(*),"
            " sum(pg_total_relation_size(oid))::bigint >> 20 FROM pg_class"
            " WHERE relnamespace = %s::regnamespace AND relkind = 'r'"
            " GROUP BY 1 HAVING sum(pg_total_relation_size(oid)) > 1 << 20 ORDER BY 1",
            (schema,),
        ).fetchall()
    return "; ".join(f"{name}: {count} tables, {size} MB" for name, count, size in rows)


def _table(rates: list[Rate]) -> str:
    return markdown_table(
        ["What", "Messages/s", "CPU for a message"],
        [
            [rate.what, f"{rate.messages_per_second:,.0f}", f"{rate.cpu_us:.1f} us"]
            for rate in rates
        ],
    )


def main() -> None:
    """Measure, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=0.0)
    arguments = parser.parse_args()
    build_client()
    print(describe_machine())
    with PostgresServer(BENCH_SETTINGS) as server:
        if arguments.minutes:
            found = measure_endurance(server, arguments.minutes)
            print(_table([*found[:4], *found[-4:]]))
            return
        alone = [asyncio.run(measure_store(server, count)) for count in (100, 1_000)]
        rates = [rate for both in alone for rate in both]
        rates += measure_bus(server, arguments.rounds)
    print(_table(rates))


if __name__ == "__main__":
    main()
