"""Deterministic simulation: the real owner, broker and store in a simulated world.

    from simulator import run_world
    outcome = run_world(17)
    assert outcome.violation is None

A seed decides everything: what clients do, which faults happen, how time passes. There
are no sockets, threads, sleeps or wall clock, so a failing seed fails again. The
auditor, which shares no code with the bus, judges the results.
"""

from simulator.world import IN_MEMORY, KINDS, Outcome, run_world

__all__ = ["IN_MEMORY", "KINDS", "Outcome", "run_world"]
