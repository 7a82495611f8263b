"""Which rights a syphon with the keys of the command would lack.

It needs Listen on the backlog queues and Send on the primary. A missing right is the
usual reason why a backlog stays.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Final

from azure.core.exceptions import AzureError

from twinbus.cli.sdk_side import PROBE_SECONDS, SdkSide, reason_of
from twinbus.pairing.failures import REFUSED
from twinbus.pairing.sdk.error_kinds import kind_of
from twinbus.sdk_internals import links

_MOST_ASKED: Final = 5
"""How many entities of the primary are tried; each needs a connection."""


async def lacking_rights(
    primary: SdkSide, secondary: SdkSide, queues: Sequence[str], entities: Sequence[str]
) -> tuple[str, ...]:
    """The rights that are refused, as texts; messages wait for these `entities`."""
    asked = [_sends(primary, path) for path in entities[:_MOST_ASKED]]
    if queues:
        asked.append(_listens(secondary, queues[0]))
    found = await asyncio.gather(*asked)
    return tuple(text for text in found if text)


async def _sends(side: SdkSide, path: str) -> str:
    sender = side.client.get_queue_sender(path)
    try:
        fault = await _fault(links.open_link(sender, PROBE_SECONDS))
    finally:
        await links.abort(sender)
    return f"Send on '{path}' of the primary: {fault}" if fault else ""


async def _listens(side: SdkSide, path: str) -> str:
    receiver = side.client.get_queue_receiver(path)
    try:
        fault = await _fault(receiver.peek_messages(1, timeout=PROBE_SECONDS))
    finally:
        await links.abort(receiver)
    return f"Listen on '{path}' of the secondary: {fault}" if fault else ""


async def _fault(attempt: Awaitable[object]) -> str:
    """Why it is refused; None for other failures, which the report shows elsewhere."""
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            await attempt
    except (AzureError, OSError, TimeoutError) as error:
        return reason_of(error) if kind_of(error) in REFUSED else ""
    return ""
