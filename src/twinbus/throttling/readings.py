"""What was measured, at one moment. None: it cannot be measured here."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessReading:
    """Of the process."""

    # In per cent of one processor, over the last seconds.
    cpu_percent: float | None = None
    memory_bytes: int | None = None
    # What the process may have: of its container, or of the machine.
    memory_limit_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreReading:
    """Of one store."""

    # Mean over the last seconds; a commit under way counts with its age.
    commit_ms: int = 0
    free_bytes: int | None = None
