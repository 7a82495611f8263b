"""Deterministic simulation: the real owner, core and store in an invented world.

    from simulator import run_world
    outcome = run_world(17)
    assert outcome.violation is None

A seed decides everything: what clients do, which faults happen, how time passes. No
sockets, threads, sleeping or wall clock, so a failing seed fails again. What is right
and wrong is the auditor's to say, who shares no code with the bus.
"""

from simulator.world import KINDS, Outcome, run_world

__all__ = ["KINDS", "Outcome", "run_world"]
