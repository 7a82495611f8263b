"""The soak: bus, good client and attackers, and what became of them."""

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.attackers.aim import Aim
from bench.attackers.filling import fill
from bench.attackers.outcome import Outcome
from bench.attackers.victim import Victim
from bench.attackers.worker import Worker

# The good client alone, so that its own start is not measured.
_QUIET_SECONDS = 2.0


def soak(
    name: str,
    attacks: Sequence[str],
    seconds: float,
    cores: tuple[int, int],
    source: Path | None,
    say: Callable[[str], None],
) -> Outcome:
    """Attack a bus for so long; `cores` are the bus's and that of all others."""
    with ExitStack() as stack:
        victim = stack.enter_context(Victim(cores[0], source))
        say("filling the queues")
        asyncio.run(fill(victim.aim, attacks))
        # The disk shall not be busy with what was sent before anybody attacked.
        os.sync()
        victim.watch_memory()
        core = str(cores[1])
        good = _working(stack, "good_client", victim.aim, core)
        time.sleep(_QUIET_SECONDS)
        say(f"attacking for {seconds:.0f} seconds")
        attackers = {
            name: _working(stack, "attack", victim.aim, name, core) for name in attacks
        }
        _wait(seconds, victim, good)
        good.tell_to_stop()
        seen = good.told()
        say("stopping the bus while it is attacked")
        stop_seconds = victim.stop_seconds()
        for attacker in attackers.values():
            attacker.tell_to_stop()
        tallies = {name: attacker.told() for name, attacker in attackers.items()}
        return _outcome(name, seconds, seen, victim, stop_seconds, tallies)


def _working(stack: ExitStack, module: str, aim: Aim, *arguments: str) -> Worker:
    worker = Worker(module, aim, *arguments)
    stack.callback(worker.kill)
    return worker


def _wait(seconds: float, victim: Victim, good: Worker) -> None:
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at and victim.is_running and not good.has_ended:
        time.sleep(0.1)


def _outcome(
    name: str,
    seconds: float,
    seen: dict[str, Any],
    victim: Victim,
    stop_seconds: float,
    tallies: dict[str, dict[str, Any]],
) -> Outcome:
    waits = sorted([*seen.get("sends", []), *seen.get("settlements", [])])
    newcomers = seen.get("newcomers", [])
    return Outcome(
        attack=name,
        seconds=seconds,
        p50_ms=1000 * _quantile(waits, 0.5),
        p99_ms=1000 * _quantile(waits, 0.99),
        max_ms=1000 * _quantile(waits, 1.0),
        wait_count=len(waits),
        own_lateness_ms=1000 * seen.get("lateness", 0.0),
        memory_mb=victim.most_bytes / 1e6,
        newcomer_count=len(newcomers),
        newcomer_max_ms=1000 * max(newcomers, default=0.0),
        lock_outs=seen.get("lock_outs", []),
        failures=seen.get("failures", ["the good client said nothing"]),
        stop_seconds=stop_seconds,
        traceback_count=victim.traceback_count,
        tallies=tallies,
    )


def _quantile(ordered: list[float], share: float) -> float:
    """Nothing waited is an endless wait: it must not look like a good one."""
    if not ordered:
        return float("inf")
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
