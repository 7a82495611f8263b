"""`python -m bench.topics`: a topic with ten subscriptions, beside RabbitMQ.

What is sent to the topic is in every subscription, so ten deliveries follow one send.
Sending is timed, then receiving from all ten at once, one connection each; the client
checks that each has every message once. RabbitMQ has a durable fan-out exchange with
ten durable queues. How much of the disk a message takes is compared with ten queues
that got the same messages one by one: twinbus stores the bytes once.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from bench.load_client import LoadFailed, build_client, run_load
from bench.measure import Measurement, timed
from bench.prerequisites import RABBITMQ_INSTALL, find_rabbitmq
from bench.rabbitmq import FAN_OUT_ADDRESS, FAN_OUT_QUEUES, RabbitMQ
from bench.results import CaseResult, DiskResult, origin_of, write_results
from bench.server import Server
from bench.tables import PLAIN, RABBITMQ, TWINBUS, case_table, disk_table
from bench.twinbus_server import TwinbusServer

SUBSCRIPTIONS = 10
_SIZES = (256, 4096)
_DISK_MESSAGES = 5_000
_WARM_UP_MESSAGES = 2_000
_TOPIC = "bench-topic"
_SUBSCRIPTION_PATHS = f"{_TOPIC}/Subscriptions/s"
_QUEUE_PATHS = "bench-queue-"
_LIMIT = "max_size_in_megabytes = 5120\n"
_NUMBERS = range(SUBSCRIPTIONS)

CONFIG = "".join(
    [
        f"[topics.{_TOPIC}]\n{_LIMIT}",
        *(f"[topics.{_TOPIC}.subscriptions.s{number}]\n" for number in _NUMBERS),
        *(f"[queues.{_QUEUE_PATHS}{number}]\n{_LIMIT}" for number in _NUMBERS),
    ]
)


class FanOut:
    """Where a server takes messages, and where their copies are."""

    def __init__(self, server: Server, sends_to: str, receives_from: str) -> None:
        self._pid = server.pid
        self._sends_to = replace(server.target, address=sends_to)
        self._receives_from = replace(server.target, address=receives_from)

    def measure(self, size: int, seconds: float) -> Iterator[tuple[str, Measurement]]:
        """Named measurements: of sending, then of receiving all that was sent."""
        shape = ["--size", str(size)]
        sending = ["send", "--duration", str(seconds), *shape]
        measured, result = timed(self._sends_to, self._pid, sending)
        yield f"topic-send-{size}B", measured
        yield f"topic-receive-{size}B", self._receive(result.messages, shape)

    def _receive(self, count: int, shape: list[str]) -> Measurement:
        copies = ["--copies", str(SUBSCRIPTIONS), "--count", str(count)]
        arguments = ["receive", "--settle", "presettled", *copies, *shape]
        return timed(self._receives_from, self._pid, arguments)[0]

    def warm_up(self) -> None:
        count = ["--count", str(_WARM_UP_MESSAGES)]
        run_load(self._sends_to, ["send", *count], is_tls=False)
        self._receive(_WARM_UP_MESSAGES, [])


def _twinbus(stack: ExitStack, is_plain: bool) -> FanOut:
    server = stack.enter_context(TwinbusServer(is_plain, CONFIG))
    return FanOut(server, _TOPIC, _SUBSCRIPTION_PATHS)


def _rabbitmq(stack: ExitStack) -> FanOut:
    server = stack.enter_context(RabbitMQ(fan_out=SUBSCRIPTIONS))
    return FanOut(server, FAN_OUT_ADDRESS, FAN_OUT_QUEUES)


MAKERS: dict[str, Callable[[ExitStack], FanOut]] = {
    TWINBUS: lambda stack: _twinbus(stack, is_plain=False),
    PLAIN: lambda stack: _twinbus(stack, is_plain=True),
    RABBITMQ: _rabbitmq,
}


def measure_rounds(names: list[str], rounds: int, seconds: float) -> list[CaseResult]:
    """Both sizes on each server before the next round begins."""
    results: dict[str, CaseResult] = {}
    with ExitStack() as stack:
        servers = {name: MAKERS[name](stack) for name in names}
        for server in servers.values():
            server.warm_up()
        for _ in range(rounds):
            for size in _SIZES:
                for name, server in servers.items():
                    _measure(server, name, size, seconds, results)
    return list(results.values())


def _measure(
    server: FanOut, name: str, size: int, seconds: float, results: dict[str, CaseResult]
) -> None:
    try:
        for case, measured in server.measure(size, seconds):
            results.setdefault(case, CaseResult(case)).add(name, measured)
            rate = f"{measured.messages_per_second:,.0f}"
            print(f"{case}: {name} {rate}", file=sys.stderr, flush=True)
    except LoadFailed as error:
        case = f"topic-{size}B"
        results.setdefault(case, CaseResult(case)).add_failure(name, str(error))


def measure_disk(size: int) -> DiskResult:
    """The same messages for ten readers: through a topic, and queue by queue."""
    queues = [f"{_QUEUE_PATHS}{number}" for number in _NUMBERS]
    return DiskResult(
        size=size,
        messages=_DISK_MESSAGES,
        readers=SUBSCRIPTIONS,
        topic_bytes=_grown_bytes([_TOPIC], size),
        queues_bytes=_grown_bytes(queues, size),
    )


def _grown_bytes(addresses: list[str], size: int) -> int:
    """By how much the files of a stopped server grow with messages there."""
    with TwinbusServer(config=CONFIG) as server:
        server.stop()
        before = server.data_bytes
        server.start()
        count = ["--count", str(_DISK_MESSAGES), "--size", str(size)]
        for address in addresses:
            target = replace(server.target, address=address)
            run_load(target, ["send", *count], is_tls=False)
        server.stop()
        return server.data_bytes - before


def main() -> int:
    """Run from the command line."""
    options = _parse_options()
    build_client()
    names = options.servers.split(",")
    if RABBITMQ in names and find_rabbitmq() is None:
        names.remove(RABBITMQ)
        print(f"RabbitMQ is missing. {RABBITMQ_INSTALL}", file=sys.stderr)
    disk = [measure_disk(size) for size in _SIZES]
    results = measure_rounds(names, options.rounds, options.seconds)
    if options.json:
        origin = origin_of("bench.topics")
        write_results(options.json, origin, topics=results, disk=disk)
    print(case_table(results), disk_table(disk), sep="\n\n")
    return 1 if any(result.failures for result in results) else 0


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.topics", description=__doc__)
    parser.add_argument("--servers", default=",".join(MAKERS), help="default: all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each sending")
    parser.add_argument("--json", type=Path, help="write raw results to this file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
