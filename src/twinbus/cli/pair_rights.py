"""What the keys of a command lack for a syphon: Listen there, Send here.

A backlog that stays is most often one whose syphon may not do its work, and that syphon
has the keys that whoever asks has, too.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Final

from azure.core.exceptions import AzureError

from twinbus.cli.sdk_side import PROBE_SECONDS, SdkSide, reason_of
from twinbus.pairing.failures import FailureKind
from twinbus.pairing.sdk import internals
from twinbus.pairing.sdk.error_kinds import kind_of

_REFUSED: Final = (FailureKind.AUTHENTICATION, FailureKind.AUTHORIZATION)

_MOST_ASKED: Final = 5
"""Entities of the primary that are asked; each takes a connection."""


async def lacking_rights(
    primary: SdkSide, secondary: SdkSide, queues: Sequence[str], entities: Sequence[str]
) -> tuple[str, ...]:
    """What is refused, as texts; `entities` are those that messages wait for."""
    asked = [_sends(primary, path) for path in entities[:_MOST_ASKED]]
    if queues:
        asked.append(_listens(secondary, queues[0]))
    found = await asyncio.gather(*asked)
    return tuple(text for text in found if text)


async def _sends(side: SdkSide, path: str) -> str:
    sender = side.client.get_queue_sender(path)
    try:
        fault = await _fault(internals.open_link(sender, PROBE_SECONDS))
    finally:
        await internals.abort(sender)
    return f"Send on '{path}' of the primary: {fault}" if fault else ""


async def _listens(side: SdkSide, path: str) -> str:
    receiver = side.client.get_queue_receiver(path)
    try:
        fault = await _fault(receiver.peek_messages(1, timeout=PROBE_SECONDS))
    finally:
        await internals.abort(receiver)
    return f"Listen on '{path}' of the secondary: {fault}" if fault else ""


async def _fault(attempt: Awaitable[object]) -> str:
    """Why it is refused; that it fails otherwise is told elsewhere."""
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            await attempt
    except (AzureError, OSError, TimeoutError) as error:
        return reason_of(error) if kind_of(error) in _REFUSED else ""
    return ""
