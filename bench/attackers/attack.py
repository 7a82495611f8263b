"""One attack in a process of its own, until it is told to stop.

`python -m bench.attackers.attack NAME CORE`, with the aim as JSON on stdin. It prints
its tally at the end. It gives way to the good client, with which it shares its core:
what is measured is the bus, not who gets the processor.
"""

import asyncio
import json
import os
import resource
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict

import uvloop

from bench.attackers import crowds, hash_floods, hoards, stalls
from bench.attackers.aim import Aim
from bench.attackers.tally import Tally
from twinbus.client import ClientError

ATTACKS: dict[str, Callable[[Aim, Tally], Awaitable[None]]] = {
    "hash-flood-keyless": hash_floods.without_key,
    "hash-flood-send-key": hash_floods.with_send_key,
    "unfinished-token-requests": hoards.unfinished_token_requests,
    "unfinished-messages": hoards.unfinished_messages,
    "unsettled-readers": hoards.unsettled_readers,
    "window-flapping": stalls.window_flapping,
    "dispositions-of-others": stalls.dispositions_of_others,
    "like-rules": stalls.like_rules,
    "deferred-at-once": stalls.deferred_at_once,
    "attach-and-detach": stalls.attach_and_detach,
    "http-crowd": crowds.http_crowd,
    "stale-tokens": crowds.stale_tokens,
}
"""By name; each goes on until the bus ends it, and is then begun anew."""

_TROUBLE = (OSError, EOFError, TimeoutError, ClientError)
_PAUSE_SECONDS = 0.05
_NICENESS = 5


async def _attack(name: str, aim: Aim, tally: Tally) -> None:
    told_to_stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told_to_stop.set)
    attacking = asyncio.create_task(_again_and_again(name, aim, tally))
    stopping = asyncio.create_task(told_to_stop.wait())
    await asyncio.wait((attacking, stopping), return_when=asyncio.FIRST_COMPLETED)
    attacking.cancel()
    try:
        await attacking
    except asyncio.CancelledError:
        pass


async def _again_and_again(name: str, aim: Aim, tally: Tally) -> None:
    while True:
        try:
            await ATTACKS[name](aim, tally)
        except _TROUBLE as trouble:
            tally.refused(trouble)
        await asyncio.sleep(_PAUSE_SECONDS)


def main() -> None:
    name, core = sys.argv[1], int(sys.argv[2])
    os.sched_setaffinity(0, {core})
    os.nice(_NICENESS)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    tally = Tally()
    uvloop.run(_attack(name, Aim.of_json(sys.stdin.read()), tally))
    print(json.dumps(asdict(tally)))


if __name__ == "__main__":
    main()
