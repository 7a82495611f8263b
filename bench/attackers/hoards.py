"""Memory that others are made to hold (numbers 5 and 6 of what was found)."""

import asyncio
from collections.abc import Awaitable, Callable

from bench.attackers import aim
from bench.attackers.aim import Aim
from bench.attackers.raw_connection import RawConnection
from bench.attackers.raw_frames import (
    ATTACH,
    FLOW,
    attach_frame,
    credit_frame,
    more_frame,
    transfer_frame,
)
from bench.attackers.tally import Tally

_PART = bytes(60_000)
_KEYLESS_COUNT = 200
_SENDER_COUNT = 100
_TOKEN_REQUESTS = 80
_MESSAGES = 16
_PARTS_OF_MESSAGE = 4
# As long as the bus lets a connection without a key live, and a bit.
_KEPT_SECONDS = 25.0


async def unfinished_token_requests(found: Aim, tally: Tally) -> None:
    """Keyless connections, each with many requests to `$cbs` that do not end."""

    async def hoard() -> None:
        async with await RawConnection.dial(found) as connection:
            for handle in range(_TOKEN_REQUESTS):
                await connection.write(attach_frame("$cbs", handle=handle))
                await connection.expect(FLOW)
                part = transfer_frame(handle, _PART, handle=handle, more=True)
                await connection.write(part)
                tally.bite_count += 1
            await connection.hear_out(_KEPT_SECONDS)

    await _together(hoard, _KEYLESS_COUNT, tally)


async def unfinished_messages(found: Aim, tally: Tally) -> None:
    """Senders, each with as many half sent messages as one may have."""

    async def hoard() -> None:
        async with await RawConnection.dial(found, aim.SENDER) as connection:
            for handle in range(_MESSAGES):
                await connection.write(attach_frame(aim.TARGET, handle=handle))
                await connection.expect(FLOW)
                part = transfer_frame(handle, _PART, handle=handle, more=True)
                await connection.write(part)
                for _ in range(_PARTS_OF_MESSAGE - 1):
                    await connection.write(more_frame(_PART, handle=handle))
                tally.bite_count += 1
            await connection.hear_out(_KEPT_SECONDS)

    await _together(hoard, _SENDER_COUNT, tally)


async def unsettled_readers(found: Aim, tally: Tally) -> None:
    """One that takes all large messages, settles none, and gives way to the next."""
    async with await RawConnection.dial(found, aim.LISTENER) as connection:
        await connection.write(attach_frame(aim.LARGE, is_receiver=True))
        await connection.expect(ATTACH)
        await connection.write(credit_frame(100_000))
        tally.bite_count += 1
        await connection.hear_out(_KEPT_SECONDS)


async def _together(
    hoard: Callable[[], Awaitable[None]], count: int, tally: Tally
) -> None:
    """So many of them at a time, each begun anew when it was ended."""

    async def again() -> None:
        while True:
            try:
                await hoard()
            except (OSError, EOFError, TimeoutError) as trouble:
                tally.refused(trouble)
                await asyncio.sleep(0.5)

    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(again())
