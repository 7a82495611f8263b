"""Messages exactly at the size limit, found by sending to the primary."""

from typing import Any

from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.exceptions import MessageSizeExceededError

from .harness_world import World

LIMIT_BYTES = 262_144


async def largest_body(world: World, queue: str, **properties: Any) -> int:
    """Bytes of the largest body that the primary takes from the plain SDK."""
    text = world.primary.connection_string()
    low, high = LIMIT_BYTES - 2_000, LIMIT_BYTES
    async with (
        ServiceBusClient.from_connection_string(text, retry_total=0) as client,
        client.get_queue_sender(queue) as sender,
    ):
        while high - low > 1:
            middle = (low + high) // 2
            try:
                await sender.send_messages(
                    ServiceBusMessage(b"x" * middle, **properties)
                )
                low = middle
            except MessageSizeExceededError:
                high = middle
    return low
