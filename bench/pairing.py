"""`python -m bench.pairing`: paired namespaces under load, while the primary goes away.

Senders send at a steady rate through a pair (the vendor's SDK), a receiver completes
everything on the primary, a syphon runs, and the primary is killed and frozen. Every
message is accounted for by its id. Then, without load, a large backlog is drained. The
exit code says whether nothing was lost, doubled or refused, and all of it in time.
"""

import argparse
import asyncio
import signal
import sys
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from bench.pairing_drain import measure_drain
from bench.pairing_load import Plan, SyphonHost, measure_load
from bench.pairing_process import ProcessFailed
from bench.pairing_results import (
    OWN_ENGINE,
    SDK_ENGINE,
    DrainResult,
    LoadResult,
    drain_table,
    load_table,
    outage_table,
)
from bench.results import origin_of, write_results

T = TypeVar("T")


async def measure(
    arguments: argparse.Namespace,
) -> tuple[list[LoadResult], list[DrainResult]]:
    loads: list[LoadResult] = []
    for host in arguments.syphon:
        plan = _plan(arguments, SyphonHost(host))
        if loads:
            # Who runs the syphon is of no matter to the rest: one outage tells.
            plan = replace(plan, kills=1, freezes=0)
        loads.append(await measure_load(plan))
        print(f"\n{load_table(loads[-1:])}\n\n{outage_table(loads[-1:])}", flush=True)
    drains: list[DrainResult] = []
    for engine, messages, rounds in (
        (OWN_ENGINE, arguments.drain, arguments.rounds),
        (SDK_ENGINE, arguments.sdk_drain, 1),
    ):
        if messages:
            queues = arguments.backlog_queues
            drains.append(await measure_drain(engine, messages, rounds, queues))
            print(f"\n{drain_table(drains[-1:])}", flush=True)
    return loads, drains


def _plan(arguments: argparse.Namespace, host: SyphonHost) -> Plan:
    return Plan(
        senders=arguments.senders,
        rate=arguments.rate,
        kills=arguments.kills,
        freezes=arguments.freezes,
        outage_seconds=arguments.outage,
        calm_seconds=arguments.calm,
        failover_interval=arguments.failover_interval,
        attempt_timeout=arguments.attempt_timeout,
        ping_interval=arguments.ping_interval,
        allowance_seconds=arguments.allowance,
        backlog_queues=arguments.backlog_queues,
        most_per_call=arguments.batch,
        syphon=host,
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.pairing")
    add = parser.add_argument
    add("--senders", type=int, default=4, help="each in a process of its own")
    add("--rate", type=float, default=500, help="messages a second of each sender")
    add("--batch", type=int, default=100, help="messages in one call, at most")
    add("--kills", type=int, default=3, help="times that the primary is killed")
    add("--freezes", type=int, default=1, help="times that it is frozen")
    add("--outage", type=float, default=60, help="seconds that it is away")
    add("--calm", type=float, default=5, help="seconds around each outage")
    add("--failover-interval", type=float, default=10)
    add("--attempt-timeout", type=float, default=10)
    add("--ping-interval", type=float, default=5)
    add("--allowance", type=float, default=1, help="seconds a failover may lose")
    add("--backlog-queues", type=int, default=10)
    hosts = list(SyphonHost)
    add("--syphon", nargs="*", default=hosts, choices=hosts, help="who runs it")
    add("--drain", type=int, default=100_000, help="messages of the pure drain")
    add("--sdk-drain", type=int, default=5_000, help="the same over the SDK")
    add("--rounds", type=int, default=3, help="of the pure drain")
    add("--json", type=Path, help="keep the raw results")
    return parser.parse_args()


async def _until_told(work: Coroutine[Any, Any, T]) -> T:
    """SIGTERM ends it as Ctrl-C does: with all processes that it started."""
    task = asyncio.create_task(work)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await task


def main() -> int:
    arguments = _arguments()
    try:
        loads, drains = asyncio.run(_until_told(measure(arguments)))
    except ProcessFailed as error:
        print(f"failed: {error}", file=sys.stderr)
        return 1
    except asyncio.CancelledError:
        print("stopped", file=sys.stderr)
        return 1
    if arguments.json is not None:
        origin = origin_of("bench.pairing")
        write_results(arguments.json, origin, pairing=loads, drains=drains)
    faults = [fault for load in loads for fault in load.faults()]
    faults += [fault for drain in drains for fault in drain.faults()]
    for fault in faults:
        print(f"not good enough: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
