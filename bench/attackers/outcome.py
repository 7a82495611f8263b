"""What a soak of attackers has shown, and what it had to."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.tables import markdown_table

P99_MS = 150.0
MEMORY_MB = 400.0
STOP_SECONDS = 5.0
"""What the bus is to keep to, whatever is done to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a soak has shown."""

    # Which attacks there were: one, or all.
    attack: str
    seconds: float
    p50_ms: float
    p99_ms: float
    max_ms: float
    wait_count: int
    # How late the good client's own timer was, at worst.
    own_lateness_ms: float
    memory_mb: float
    newcomer_count: int
    newcomer_max_ms: float
    lock_outs: list[str]
    failures: list[str]
    stop_seconds: float
    traceback_count: int
    # By attack: what it did.
    tallies: dict[str, dict[str, Any]]

    def missed(self) -> list[str]:
        """The bars that were not kept to."""
        idle = [
            name for name, tally in self.tallies.items() if not tally.get("bite_count")
        ]
        found = {
            f"p99 is {self.p99_ms:.0f} ms": self.p99_ms > P99_MS,
            f"memory is {self.memory_mb:.0f} MB": self.memory_mb >= MEMORY_MB,
            f"{len(self.lock_outs)} newcomers were locked out": bool(self.lock_outs),
            f"{len(self.failures)} requests failed": bool(self.failures),
            f"SIGTERM took {self.stop_seconds:.1f} s": self.stop_seconds > STOP_SECONDS,
            f"{self.traceback_count} tracebacks": self.traceback_count > 0,
            f"did nothing: {', '.join(idle)}": bool(idle),
            "the good client measured nothing": self.wait_count == 0,
        }
        return [text for text, is_missed in found.items() if is_missed]


def outcome_table(outcomes: Sequence[Outcome]) -> str:
    """A line for each soak."""
    columns = (
        *("attack", "s", "waits", "p50 ms", "p99 ms", "max ms", "client late ms"),
        *("memory MB", "newcomers", "slowest ms", "locked out", "SIGTERM s"),
    )
    return markdown_table(columns, [_row(outcome) for outcome in outcomes])


def _row(outcome: Outcome) -> tuple[str, ...]:
    return (
        *(outcome.attack, f"{outcome.seconds:.0f}", f"{outcome.wait_count:,}"),
        *(f"{outcome.p50_ms:.1f}", f"{outcome.p99_ms:.0f}", f"{outcome.max_ms:,.0f}"),
        *(f"{outcome.own_lateness_ms:.0f}", f"{outcome.memory_mb:.0f}"),
        *(str(outcome.newcomer_count), f"{outcome.newcomer_max_ms:.0f}"),
        *(str(len(outcome.lock_outs)), f"{outcome.stop_seconds:.1f}"),
    )
