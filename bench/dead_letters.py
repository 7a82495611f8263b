"""`python -m bench.dead_letters`: how fast dead letters become messages again.

A server is started as users start it, with SQLite. Each round dead-letters all messages
of a queue and puts them back, as `twinbus dead-letters resubmit --all` does.
"""

import argparse
import asyncio
import time
from statistics import median

from bench.twinbus_server import TwinbusServer
from twinbus.cli.dead_letter_choice import Choice
from twinbus.cli.messages.dead_letters import resubmitted
from twinbus.cli.messages.namespace_side import NamespaceSide
from twinbus.cli.messages.receiving import DEAD_LETTER, WantedMessages, receive_all
from twinbus.cli.messages.sending import send_all

_QUEUE = "bench"


async def measure(connection_string: str, rounds: int, count: int) -> list[float]:
    """Messages in a second, by round."""
    side = NamespaceSide(connection_string)
    drafts = ({"body": "x" * 100} for _ in range(count))
    await send_all(side, _QUEUE, drafts, _nothing)
    rates: list[float] = []
    for _ in range(rounds):
        wanted = WantedMessages(
            entity=_QUEUE, count=count, wait_seconds=30, settlement=DEAD_LETTER
        )
        await receive_all(side, wanted, _nothing)
        started = time.perf_counter()
        moved = await resubmitted(side, _QUEUE, Choice(), _nothing)
        rates.append(moved / (time.perf_counter() - started))
        assert moved == count, f"{moved} of {count} came back"
    await side.close()
    return rates


def _nothing(_: object) -> None:
    """Neither prints nor shows progress."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--messages", type=int, default=20_000)
    given = parser.parse_args()
    with TwinbusServer() as server:
        target = server.target
        text = (
            f"Endpoint=sb://localhost:{target.port};SharedAccessKeyName={target.user};"
            f"SharedAccessKey={target.password};UseDevelopmentEmulator=true"
        )
        rates = asyncio.run(measure(text, given.rounds, given.messages))
    shown = ", ".join(f"{rate:,.0f}" for rate in rates)
    print(f"resubmitted in a second: {median(rates):,.0f} (rounds: {shown})")


if __name__ == "__main__":
    main()
