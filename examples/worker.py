"""A worker: receives orders, renews their locks while it works, settles them.

It ends when the queue has been empty for a while. After a crash a message may be
processed again, so make the processing idempotent.
"""

import asyncio
import os

from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage
from azure.servicebus.aio import AutoLockRenewer, ServiceBusClient

QUIET_SECONDS = 2


async def process(message: ServiceBusReceivedMessage) -> None:
    """The work itself. Raises ValueError for an order that nobody can fill."""
    if str(message) == "a unicorn":
        raise ValueError("not in stock, and never will be")
    print(f"made {message}")


async def send_orders(client: ServiceBusClient) -> None:
    async with client.get_queue_sender("orders") as sender:
        orders = ("coffee", "a unicorn", "tea")
        await sender.send_messages([ServiceBusMessage(order) for order in orders])


async def work(client: ServiceBusClient) -> None:
    async with (
        AutoLockRenewer() as renewer,
        client.get_queue_receiver("orders", max_wait_time=QUIET_SECONDS) as receiver,
    ):
        async for message in receiver:
            renewer.register(receiver, message, max_lock_renewal_duration=300)
            try:
                await process(message)
            except ValueError as error:
                await receiver.dead_letter_message(
                    message, reason="Impossible", error_description=str(error)
                )
            else:
                await receiver.complete_message(message)


async def main() -> None:
    connection_string = os.environ["TWINBUS_CONNECTION_STRING"]
    async with ServiceBusClient.from_connection_string(connection_string) as client:
        await send_orders(client)
        await work(client)


if __name__ == "__main__":
    asyncio.run(main())
