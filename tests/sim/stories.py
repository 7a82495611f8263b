"""Looks for things that should happen in some world.

A search begins with the seeds that showed everything when its test was written, and
ends when nothing is missing. When worlds change, it goes on with all others.
"""

from collections.abc import Iterable

from simulator import run_world

Parts = tuple[str, ...]
"""What one line of a trace has."""


def untold(
    kind: str, wanted: Iterable[Parts], *, first: Iterable[int], worlds: int
) -> set[Parts]:
    """Of what is wanted, all that happens in none of the worlds."""
    missing = set(wanted)
    for seed in (*first, *range(worlds)):
        lines = run_world(seed, kind=kind).trace.lines
        missing = {
            parts
            for parts in missing
            if not any(all(part in line for part in parts) for line in lines)
        }
        if not missing:
            break
    return missing
