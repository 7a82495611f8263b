"""Makes exported operation logs of a pair of namespaces, as large as you like.

    python -m bench.operation_logs FOLDER --rows 5000000 --losses 40 --duplicates 30

Two message stores and a paired sender: sends, deliveries, settlements, renewals,
empty receives, pings, dead letters, forwarding, topics, partitioned entities, and an
outage of the primary in which messages are diverted and later restored. Faults are
planted on request: messages lost, doubled, or brought to a wrong entity, sent directly
and restored. The same seed gives the same logs. All is done by columns, some 60,000
messages at a time, so that memory does not grow with the rows.
"""

import argparse
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bench.operation_log_chunk import BACKLOG_QUEUES, ENTITIES, PRIMARY, Chunk, Scene
from bench.operation_log_writer import LogWriter

SECONDARY = "site-b"
BEGAN = datetime(2026, 11, 1, tzinfo=UTC)
_CHUNK_MESSAGES = 60_000
_ROWS_OF_A_MESSAGE = 4.25
_SECOND = 1_000_000
_MINUTE = 60 * _SECOND

LOST, DUPLICATED, MISROUTED = "lost", "duplicated", "misrouted"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """What to make."""

    rows: int = 100_000
    seed: int = 1
    losses: int = 0
    duplicates: int = 0
    misroutings: int = 0
    hours: float = 4.0
    # Of the time, when the primary is away.
    outage: tuple[float, float] = (0.4, 0.5)
    # The secondary's clock is ahead by this.
    skew_seconds: float = 0.0
    has_sender_log: bool = True


@dataclass(frozen=True, slots=True)
class Planted:
    """A fault, and the message that has it."""

    kind: str
    message_uid: str
    entity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedLogs:
    """What was made."""

    folders: tuple[Path, ...]
    planted: tuple[Planted, ...]
    rows: int
    messages: int
    diverted: int
    in_flight: int
    dead_lettered: int
    expired: int


def generate(folder: Path, options: LogOptions) -> GeneratedLogs:
    """Write the logs below a folder: `site-a`, `site-b` and `senders`."""
    folders = [folder / name for name in (PRIMARY, SECONDARY, "senders")]
    seed = str(options.seed)
    primary = LogWriter(folders[0], PRIMARY, name=f"a{seed}")
    secondary = LogWriter(folders[1], SECONDARY, name=f"b{seed}")
    sender = LogWriter(folders[2], PRIMARY, kind="sender", name=f"s{seed}")
    span = int(options.hours * 3600 * _SECOND)
    scene = Scene(
        began=int(BEGAN.timestamp() * _SECOND),
        span=span,
        outage=tuple(int(part * span) for part in options.outage),
        skew=int(options.skew_seconds * _SECOND),
        messages=max(int(options.rows / _ROWS_OF_A_MESSAGE), 100),
    )
    faults = _faults(options, scene)
    planted: list[Planted] = []
    tally = dict.fromkeys(("diverted", "in_flight", "dead_lettered", "expired"), 0)
    for first in range(0, scene.messages, _CHUNK_MESSAGES):
        count = min(_CHUNK_MESSAGES, scene.messages - first)
        here = {
            at - first: kind
            for at, kind in faults.items()
            if at in range(first, first + count)
        }
        chunk = Chunk(scene, options.seed, first, count, here)
        primary.write(chunk.primary())
        diverted = chunk.secondary()
        if len(diverted):
            secondary.write(diverted)
        if options.has_sender_log:
            sender.write(chunk.sender())
        planted += [Planted(*one) for one in chunk.planted()]
        for name, number in chunk.tally().items():
            tally[name] += number
    # All logs end at the same moment, well after the last operation.
    end = BEGAN + timedelta(microseconds=span) + timedelta(minutes=20)
    skewed = end + timedelta(seconds=options.skew_seconds)
    primary.write(_idle_primary(scene), complete_until=end)
    secondary.write(_idle_secondary(scene), complete_until=skewed)
    writers = [primary, secondary]
    if options.has_sender_log:
        sender.write(_failed_pings(scene), complete_until=end, is_last=True)
        writers.append(sender)
    return GeneratedLogs(
        folders=tuple(writer.folder for writer in writers),
        planted=tuple(planted),
        rows=sum(writer.rows for writer in writers),
        messages=scene.messages,
        **tally,
    )


def _faults(options: LogOptions, scene: Scene) -> dict[int, str]:
    """Which messages have which fault: half of them sent in the outage."""
    drawn = Random(options.seed)
    kinds = [LOST] * options.losses + [DUPLICATED] * options.duplicates
    kinds += [MISROUTED] * options.misroutings
    # Away from both ends of the outage, so that it is known which way each one goes,
    # and from the end of the log, where messages are still in flight.
    places = [range(int(scene.messages * 0.05), int(scene.messages * 0.35))]
    share = [part / scene.span for part in scene.outage]
    if share[1] > share[0]:
        inset = (share[1] - share[0]) * 0.1
        low, high = share[0] + inset, share[1] - inset
        places.append(range(int(scene.messages * low), int(scene.messages * high)))
    found: dict[int, str] = {}
    for number, kind in enumerate(kinds):
        place = places[number % len(places)]
        at = drawn.choice(place)
        while at in found:
            at = drawn.choice(place)
        found[at] = kind
    return found


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    """Rows with times in microseconds, in order of time."""
    names = {name: None for row in rows for name in row}
    ordered = sorted(rows, key=lambda row: row["occurred_at"])
    columns = {name: pa.array([row.get(name) for row in ordered]) for name in names}
    moment = pc.cast(columns["occurred_at"], pa.timestamp("us", tz="UTC"))
    table = pa.table({**columns, "occurred_at": moment})
    return table


def _idle_primary(scene: Scene) -> pa.Table:
    """Receives that found nothing, and the pings that found the primary back."""
    rows: list[dict[str, Any]] = []
    for entity in ENTITIES:
        common = {"entity": entity.receives, "entity_kind": entity.receiving_kind}
        for minute in range(0, scene.span, _MINUTE):
            rows.append(
                {
                    **common,
                    "occurred_at": scene.began + minute + _MINUTE - 1,
                    "operation": "receive_empty",
                    "result": "empty",
                    "key_name": "receivers",
                    "purpose": "link",
                    "amount": 1 + minute // _MINUTE % 3,
                }
            )
        if scene.outage[1] > scene.outage[0]:
            rows.append(
                {
                    "entity": entity.path,
                    "entity_kind": entity.kind,
                    "occurred_at": scene.began + scene.outage[1],
                    "operation": "ping",
                    "result": "ok",
                    "key_name": "senders",
                    "purpose": "link",
                    "amount": None,
                }
            )
    return _table(rows)


def _idle_secondary(scene: Scene) -> pa.Table:
    """The syphon's long polls, one a quarter of an hour, and its looks for queues."""
    rows: list[dict[str, Any]] = []
    for quarter in range(0, scene.span, 15 * _MINUTE):
        for queue in BACKLOG_QUEUES:
            rows.append(
                {
                    "occurred_at": scene.began
                    + scene.skew
                    + quarter
                    + 15 * _MINUTE
                    - 1,
                    "operation": "receive_empty",
                    "result": "empty",
                    "entity": queue,
                    "entity_kind": "queue",
                    "key_name": "syphon",
                    "purpose": "syphon",
                }
            )
    for minute in range(0, scene.span, _MINUTE):
        rows.append(
            {
                "occurred_at": scene.began + scene.skew + minute,
                "operation": "administration",
                "result": "ok",
                "entity": None,
                "key_name": "syphon",
                "purpose": "syphon",
            }
        )
    return _table(rows)


def _failed_pings(scene: Scene) -> pa.Table:
    """One a minute for each entity, while the primary is away."""
    rows: list[dict[str, Any]] = [
        {
            "occurred_at": scene.began + moment,
            "operation": "ping",
            "result": "failed",
            "entity": entity.path,
            "entity_kind": entity.kind,
            "key_name": "senders",
            "client": "sender-1",
            "purpose": "ping",
        }
        for moment in range(scene.outage[0], scene.outage[1], _MINUTE)
        for entity in ENTITIES
    ]
    if not rows:
        rows = [{"occurred_at": scene.began, "operation": "ping", "result": "ok"}]
    return _table(rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.operation_logs", description=__doc__
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--losses", type=int, default=0)
    parser.add_argument("--duplicates", type=int, default=0)
    parser.add_argument("--misroutings", type=int, default=0)
    given = parser.parse_args()
    began = time.monotonic()
    made = generate(
        given.folder,
        LogOptions(
            rows=given.rows,
            seed=given.seed,
            losses=given.losses,
            duplicates=given.duplicates,
            misroutings=given.misroutings,
        ),
    )
    seconds = time.monotonic() - began
    print(f"{made.rows:,} rows of {made.messages:,} messages in {seconds:.1f} s")
    for one in made.planted:
        print(f"{one.kind} {one.message_uid} {one.entity}")


if __name__ == "__main__":
    main()
