"""`python -m bench.spark`: Spark over the bus, beside the vendor's SDK.

Three questions. How fast is a queue read by Spark over Arrow, beside AMQP through the
SDK, in the same run and of the same queue? What is a stream that settles a million
messages, and does it hold memory? How fast is a backlog brought back by the Spark job,
beside the in-process syphon? The exit code says whether it is good enough.
"""

import argparse
import asyncio
import sys
from pathlib import Path

from bench.load_client import build_client
from bench.prerequisites import MissingPrerequisite
from bench.results import origin_of, write_results
from bench.spark_drain import measure_drain
from bench.spark_reading import measure_reading
from bench.spark_results import (
    DrainedResult,
    ReadingResult,
    SyphonResult,
    drained_table,
    memory_table,
    reading_faults,
    reading_table,
    syphon_table,
)
from bench.spark_session import spark_session
from bench.spark_syphon import measure_syphons

PARTS = ("reading", "drain", "syphon")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__)
    add = parser.add_argument
    add("--parts", nargs="+", choices=PARTS, default=PARTS)
    add("--rounds", type=int, default=5, help="of reading; of the syphons three fifths")
    add("--messages", type=int, default=1_000_000, help="that Spark reads")
    add("--sdk-messages", type=int, default=20_000, help="of them, that the SDK reads")
    add("--drain", type=int, default=1_000_000, help="messages that a stream settles")
    add("--backlog", type=int, default=100_000, help="messages that a syphon moves")
    add("--json", type=Path, help="keep the raw results")
    return parser.parse_args()


def main() -> int:
    arguments = _arguments()
    try:
        build_client()
    except MissingPrerequisite as error:
        print(error, file=sys.stderr)
        return 2
    readings: list[ReadingResult] = []
    drains: list[DrainedResult] = []
    syphons: list[SyphonResult] = []
    with spark_session() as spark:
        if "reading" in arguments.parts:
            readings = measure_reading(
                spark, arguments.messages, arguments.sdk_messages, arguments.rounds
            )
            print(f"\n{reading_table(readings)}", flush=True)
        if "drain" in arguments.parts:
            drains = [measure_drain(spark, arguments.drain)]
            print(f"\n{drained_table(drains)}\n\n{memory_table(drains)}", flush=True)
        if "syphon" in arguments.parts:
            rounds = max(arguments.rounds * 3 // 5, 1)
            work = measure_syphons(spark, arguments.backlog, rounds)
            syphons = asyncio.run(work)
            print(f"\n{syphon_table(syphons)}", flush=True)
    if arguments.json is not None:
        write_results(
            arguments.json,
            origin_of("bench.spark"),
            spark=readings,
            drained=drains,
            syphons=syphons,
        )
    faults = reading_faults(readings)
    faults += [fault for one in drains for fault in one.faults()]
    for fault in faults:
        print(f"not good enough: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
