"""What happens in a round of a drill, and to which stores.

A disaster is over when whatever died has been started again, or replaced. The instant
at which it struck is by the monotonic clock.
"""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random

from .sites import Site, follow_synchronously


@dataclass(frozen=True, slots=True, kw_only=True)
class Blow:
    """One disaster that has struck."""

    # For people.
    what: str
    struck_at: float
    # Those that were hit, by uuid.
    stores: frozenset[bytes]


Disaster = Callable[[Site, Random], Awaitable[Blow]]


async def kill_broker(site: Site, random: Random) -> Blow:
    return await _signal_broker(site, random, signal.SIGKILL, "kill -9 of")


async def freeze_broker(site: Site, random: Random) -> Blow:
    return await _signal_broker(site, random, signal.SIGSTOP, "SIGSTOP of")


async def _signal_broker(
    site: Site, random: Random, number: signal.Signals, text: str
) -> Blow:
    alive = await site.brokers.alive()
    name = random.choice(sorted(alive))
    await asyncio.sleep(random.uniform(0.0, 0.3))
    os.kill(alive[name].process.pid, number)
    return Blow(
        what=f"{text} broker {name}",
        struck_at=time.monotonic(),
        stores=frozenset(alive[name].stores),
    )


async def restart_postgres(site: Site, random: Random) -> Blow:
    """Killed, or stopped without a checkpoint; started again at once. The stores of
    files are not hit."""
    (server,) = site.servers
    alive = await site.brokers.alive()
    await asyncio.sleep(random.uniform(0.0, 0.3))
    is_kill = random.random() < 0.5
    await asyncio.to_thread(server.kill if is_kill else server.stop_at_once)
    struck_at = time.monotonic()
    await asyncio.to_thread(server.start)
    return Blow(
        what=f"{'kill -9' if is_kill else 'immediate stop'} of PostgreSQL, and a start",
        struck_at=struck_at,
        stores=frozenset(uuid for one in alive.values() for uuid in one.stores),
    )


async def promote_standby(site: Site, random: Random) -> Blow:
    """The primary is killed and stays away; afterwards it is the standby."""
    primary, standby = site.servers
    alive = await site.brokers.alive()
    await asyncio.sleep(random.uniform(0.0, 0.3))
    await asyncio.to_thread(primary.kill)
    struck_at = time.monotonic()
    await asyncio.to_thread(standby.promote)
    site.servers.reverse()
    return Blow(
        what="kill -9 of the primary, promotion of the standby",
        struck_at=struck_at,
        stores=frozenset(uuid for one in alive.values() for uuid in one.stores),
    )


async def follow_again(site: Site) -> None:
    """The old primary becomes the standby of the new one."""
    if len(site.servers) == 2:
        primary, standby = site.servers
        await asyncio.to_thread(follow_synchronously, standby, primary)


DISASTERS: dict[str, Disaster] = {
    "broker": kill_broker,
    "freeze": freeze_broker,
    "postgres": restart_postgres,
    "standby": promote_standby,
}
