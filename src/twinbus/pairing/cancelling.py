"""Cancels scheduled messages that made the detour.

Such a message waits in a backlog queue, or a syphon is moving it, or it is scheduled on
the primary already. All places are asked for its send id until one of them has it. Only
twinbus namespaces can find a message by its send id.

Two copies cannot be found: one that a syphon is moving, and one that is due and active
on a primary that did not answer the send. If there is a second copy elsewhere, only
that second copy is cancelled.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from twinbus.pairing.deadline import Deadline
from twinbus.pairing.ports import M
from twinbus.pairing.send_ids import send_id_of, was_tried

if TYPE_CHECKING:
    from twinbus.pairing.pair import Pair

_PAUSE_MS: Final = 500
_PATIENCE_MS: Final = 5_000
"""For a message that a syphon is moving at this moment."""


async def cancel_diverted(
    pair: "Pair[M]", path: str, numbers: Sequence[int], deadline: Deadline
) -> None:
    """Raises CannotCancel; and the dialect's error for a refusal if a message was not
    found anywhere, or may wait on a primary that is away."""
    left = [send_id_of(number) for number in numbers]
    patience = Deadline(pair.clock, min(deadline.left_ms() // 2, _PATIENCE_MS))
    while True:
        if pair.entity(path).is_diverted():
            _check_untried(pair, path, numbers)
        left = await _cancel_everywhere(pair, path, left, deadline)
        if not left:
            return
        if patience.is_over():
            raise pair.dialect.refused(
                f"{len(left)} of {len(numbers)} scheduled messages for '{path}' wait "
                "neither in a backlog queue nor on the primary: they were sent or "
                "cancelled before, or the primary is away and has them."
            )
        await asyncio.sleep(min(_PAUSE_MS, deadline.left_ms()) / 1000)


def _check_untried(pair: "Pair[M]", path: str, numbers: Sequence[int]) -> None:
    """Refuse if the primary is away and may have a message, from an attempt that it did
    not answer. Removed from the backlog only, that message would still be sent."""
    count = sum(was_tried(number) for number in numbers)
    if count:
        raise pair.dialect.refused(
            f"The primary is away and may have {count} of {len(numbers)} scheduled "
            f"messages for '{path}', from attempts that it did not answer. Nothing was "
            "cancelled; cancel them when it is back."
        )


async def _cancel_everywhere(
    pair: "Pair[M]", path: str, send_ids: list[bytes], deadline: Deadline
) -> list[bytes]:
    """Cancel messages everywhere; returns the send ids that were not found. Every place
    is asked for every id, because an attempt without an answer may have left a copy.
    The primary is asked first: it drops later copies of what it had, and if it fails,
    nothing has been changed."""
    places = [(queue, False) for queue in pair.rotation.queues]
    if not pair.entity(path).is_diverted():
        places.insert(0, (path, True))
    left = set(send_ids)
    for place, is_primary in places:
        left &= set(await _not_at(pair, place, send_ids, deadline, is_primary))
    return [send_id for send_id in send_ids if send_id in left]


async def _not_at(
    pair: "Pair[M]",
    path: str,
    send_ids: list[bytes],
    deadline: Deadline,
    is_primary: bool,
) -> list[bytes]:
    """Cancel messages at one place; returns the send ids that were not found there."""
    door = (pair.primary if is_primary else pair.secondary).door(path)
    limit_ms = min(pair.settings.attempt_timeout_ms, max(deadline.left_ms(), 1))
    try:
        async with asyncio.timeout(limit_ms / 1000):
            found = await door.cancel_sent(send_ids, limit_ms / 1000)
    finally:
        await door.close()
    return [send_id for send_id, was in zip(send_ids, found, strict=True) if not was]
