"""Cancels scheduled messages that made the detour.

Such a message waits in a backlog queue, or is on its way out of it, or is on the
primary's schedule already. It is looked for by its send id in all of these until it is
found; between twinbus sites, because no other namespace can look for it.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from twinbus.pairing.deadline import Deadline
from twinbus.pairing.ports import M
from twinbus.pairing.send_ids import send_id_of

if TYPE_CHECKING:
    from twinbus.pairing.pair import Pair

_PAUSE_SECONDS: Final = 0.5
_PATIENCE_MS: Final = 5_000
"""For a message that a syphon is moving at this moment."""


async def cancel_diverted(
    pair: "Pair[M]", path: str, numbers: Sequence[int], deadline: Deadline
) -> None:
    """Raises CannotCancel, or what the dialect makes of a refusal if one of them
    waits nowhere any more."""
    left = [send_id_of(number) for number in numbers]
    patience = Deadline(pair.clock, min(deadline.left_ms(), _PATIENCE_MS))
    while True:
        for queue in pair.rotation.queues:
            left = await _cancel_at(pair, queue, left, deadline, is_primary=False)
        left = await _cancel_at(pair, path, left, deadline, is_primary=True)
        if not left:
            return
        if patience.is_over():
            raise pair.dialect.refused(
                f"{len(left)} of {len(numbers)} scheduled messages for '{path}' wait "
                "neither in a backlog queue nor on the primary: they were sent or "
                "cancelled before, or the primary is away and has them."
            )
        await asyncio.sleep(_PAUSE_SECONDS)


async def _cancel_at(
    pair: "Pair[M]",
    path: str,
    send_ids: list[bytes],
    deadline: Deadline,
    *,
    is_primary: bool,
) -> list[bytes]:
    """Those that were not found there."""
    if not send_ids:
        return []
    if is_primary and pair.entity(path).is_diverted():
        return send_ids  # there is nobody to ask
    door = (pair.primary if is_primary else pair.secondary).door(path)
    limit_ms = min(pair.settings.attempt_timeout_ms, max(deadline.left_ms(), 1))
    try:
        async with asyncio.timeout(limit_ms / 1000):
            found = await door.cancel_sent(send_ids, limit_ms / 1000)
    finally:
        await door.close()
    return [send_id for send_id, was in zip(send_ids, found, strict=True) if not was]
