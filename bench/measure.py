"""One measurement: one case, one server, once.

Every message sent is received and checked (ids numbered, each exactly once)
before the measurement counts, so a server cannot look fast by losing something.
Receiving needs an exact number of waiting messages; a short pilot, which warms the
server up as well, finds how many last for the wanted time. Only the measured part
is timed: filling and emptying the queue is not.
"""

from dataclasses import dataclass
from typing import Final

from bench.cases import Case, Operation
from bench.load_client import Latency, LoadResult, Target, run_load
from bench.processes import usage_of_tree
from bench.server import Server

_PILOT_SECONDS: Final = 0.5
_PILOT_MESSAGES: Final = 300
_FILL: Final = ("--connections", "4", "--window", "500")


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one run of a case on a server gave."""

    messages_per_second: float
    server_cpu_us: float  # per message
    client_cpu_share: float  # of one core; near 1 the client was the bottleneck
    latency: Latency


def timed(
    target: Target, pid: int, arguments: list[str], is_tls: bool = False
) -> tuple[Measurement, LoadResult]:
    """Run the load client once, and say what it cost the server of that pid."""
    before = usage_of_tree(pid)
    result = run_load(target, arguments, is_tls)
    after = usage_of_tree(pid)
    cpu = after.cpu_seconds - before.cpu_seconds
    measurement = Measurement(
        messages_per_second=result.messages_per_second,
        server_cpu_us=cpu / result.messages * 1e6,
        client_cpu_share=result.client_cpu_seconds / result.seconds,
        latency=result.delivery_latency or result.latency,
    )
    return measurement, result


class Bench:
    """Measures cases on one running server, and remembers what pilots found."""

    def __init__(self, server: Server, seconds: float) -> None:
        self._server = server
        self._seconds = seconds
        self._rates: dict[Case, float] = {}

    def measure(self, case: Case) -> Measurement:
        """Run a case; the queue is empty before and after."""
        if case.operation in (
            Operation.RECEIVE_CONFIRMED,
            Operation.RECEIVE_PRESETTLED,
        ):
            return self._measure_receive(case)
        if case.operation in (Operation.SEND, Operation.BATCH_SEND):
            return self._measure_send(case)
        return self._measure_both(case)

    def _measure_send(self, case: Case) -> Measurement:
        if case not in self._rates:
            pilot = self._send(case, _PILOT_SECONDS)
            self._rates[case] = pilot.messages_per_second
        return self._send(case, self._seconds)

    def _send(self, case: Case, seconds: float) -> Measurement:
        mode = "batch" if case.operation is Operation.BATCH_SEND else "send"
        arguments = [mode, "--duration", str(seconds), "--batch", str(case.batch)]
        measurement, result = self._timed(case, arguments)
        self._empty(case, result.messages)
        return measurement

    def _measure_receive(self, case: Case) -> Measurement:
        if case not in self._rates:
            pilot = self._receive(case, _PILOT_MESSAGES)
            count = int(pilot.messages_per_second * _PILOT_SECONDS)
            better = self._receive(case, max(count, _PILOT_MESSAGES))
            self._rates[case] = better.messages_per_second
        count = int(self._rates[case] * self._seconds)
        return self._receive(case, max(count, _PILOT_MESSAGES))

    def _receive(self, case: Case, count: int) -> Measurement:
        self._load(case, ["send", "--count", str(count), *_FILL])
        settle = case.operation.removeprefix("receive-")
        arguments = ["receive", "--settle", settle, "--count", str(count)]
        return self._timed(case, arguments)[0]

    def _measure_both(self, case: Case) -> Measurement:
        arguments = ["both", "--settle", "presettled"]
        arguments += ["--duration", str(self._seconds)]
        if case.rate:
            arguments += ["--rate", str(case.rate)]
        return self._timed(case, arguments)[0]

    def _empty(self, case: Case, count: int) -> None:
        """Receive exactly what was sent; the client checks each id."""
        arguments = ["receive", "--settle", "presettled", "--count", str(count)]
        self._load(case, [*arguments, *_FILL])

    def _load(self, case: Case, arguments: list[str]) -> LoadResult:
        size = ["--size", str(case.size)]
        return run_load(self._server.target, [*arguments, *size], is_tls=False)

    def _timed(
        self, case: Case, arguments: list[str]
    ) -> tuple[Measurement, LoadResult]:
        server = self._server
        shape = [*arguments, *_shape(case)]
        return timed(server.target, server.pid, shape, case.is_tls)


def _shape(case: Case) -> list[str]:
    # The client counts deliveries, and an envelope is one.
    window = max(1, case.window // case.batch)
    return [
        *("--size", str(case.size)),
        *("--connections", str(case.connections)),
        *("--window", str(window)),
    ]
