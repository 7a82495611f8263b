"""What is measured: operations, and the dimensions they are measured along.

The usual run goes along one dimension at a time from a base point (256-byte
messages, one connection, window 1000, no TLS); the cross product has every
combination and takes hours. A case's name says everything about it, so that
`--only` can choose by it and results of different days can be laid side by side.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product

SIZES = (64, 256, 4096, 65536)
CONNECTIONS = (1, 8, 64)
WINDOWS = (1, 1000)

# Messages of one envelope: Service Bus takes a quarter of a megabyte at most.
BATCH_BYTES = 200_000
BATCH_LIMIT = 100


class Operation(enum.StrEnum):
    """What the load client does to the queue."""

    SEND = "send"
    BATCH_SEND = "batch-send"
    RECEIVE_CONFIRMED = "receive-confirmed"
    RECEIVE_PRESETTLED = "receive-presettled"
    BOTH = "both"
    FIXED_RATE = "fixed-rate"


THROUGHPUT = (
    Operation.SEND,
    Operation.BATCH_SEND,
    Operation.RECEIVE_CONFIRMED,
    Operation.RECEIVE_PRESETTLED,
    Operation.BOTH,
)


@dataclass(frozen=True, slots=True)
class Case:
    """One operation at one point of the dimensions."""

    operation: Operation
    size: int = 256
    connections: int = 1
    window: int = 1000
    is_tls: bool = False
    # Messages per second of FIXED_RATE, over all connections.
    rate: int = 0

    @property
    def name(self) -> str:
        size = f"{self.size // 1024}KB" if self.size >= 1024 else f"{self.size}B"
        parts = [self.operation, size, f"{self.connections}c", f"w{self.window}"]
        if self.rate:
            parts.append(f"{self.rate}-per-s")
        return "-".join([*parts, "tls"] if self.is_tls else parts)

    @property
    def batch(self) -> int:
        """Messages per envelope."""
        if self.operation is not Operation.BATCH_SEND:
            return 1
        return max(1, min(BATCH_LIMIT, BATCH_BYTES // (self.size + 64)))

    @property
    def is_for_rabbitmq(self) -> bool:
        """Batch envelopes are Service Bus's own."""
        return self.operation is not Operation.BATCH_SEND

    @property
    def is_for_plain(self) -> bool:
        """Plain Python is measured where the product promises something about it."""
        return self == Case(self.operation)


def usual_cases() -> list[Case]:
    """One dimension at a time from the base point, then latency at fixed rates."""
    base = [Case(operation) for operation in THROUGHPUT]
    sizes = [replace(case, size=size) for size, case in product(SIZES, base)]
    one_by_one = [case for case in base if case.batch == 1]
    crowds = [
        replace(case, connections=connections, window=window)
        for connections, window, case in product(CONNECTIONS, WINDOWS, one_by_one)
    ]
    tls = [replace(case, is_tls=True) for case in base]
    return _unique([*base, *sizes, *crowds, *tls, *_fixed_rates()])


def quick_cases() -> list[Case]:
    """What the product promises figures about, and nothing else."""
    base = [Case(operation) for operation in THROUGHPUT]
    crowd = [
        Case(operation, connections=64, window=1)
        for operation in (Operation.SEND, Operation.RECEIVE_PRESETTLED)
    ]
    return [*base, *crowd]


def all_cases() -> list[Case]:
    """The cross product of every dimension."""
    points = product(THROUGHPUT, SIZES, CONNECTIONS, WINDOWS, (False, True))
    return [*(Case(*point) for point in points), *_fixed_rates()]


def _fixed_rates() -> list[Case]:
    """Rates that both servers can sustain, so that latencies can be compared."""
    return [
        Case(Operation.FIXED_RATE, connections=connections, rate=rate)
        for connections, rate in product((1, 64), (1000, 5000))
    ]


def _unique(cases: Iterable[Case]) -> list[Case]:
    return list(dict.fromkeys(cases))
