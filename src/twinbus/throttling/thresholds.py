"""The measures above which requests are refused; 0: that one is not watched."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """All thresholds of a server."""

    # CPU of the process, in per cent of one processor.
    cpu_percent: int = 0
    # Memory of the process, in per cent of what it may have.
    memory_percent: int = 0
    # Mean duration of the commits of a store.
    commit_ms: int = 0
    # Free space on the disk of a store: less is too little.
    free_megabytes: int = 0
    # Operations per second of a namespace, and how many it may do at once.
    operations_per_second: int = 0
    burst: int = 0
