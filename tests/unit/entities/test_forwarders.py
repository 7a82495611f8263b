"""Forwarding that ends while messages are being moved."""

from twinbus.amqp.messaging import AmqpValue, Message, Properties, encode_message
from twinbus.broker.fragment import DEAD_LETTER
from twinbus.encoding.incoming import read_message

from .world import Client, World


async def test_dead_letter_that_was_on_its_way_is_not_held_back(world: World) -> None:
    """Its target looks for duplicates first, and is gone when it has looked."""
    namespace, owner = world.namespace, world.owner
    target = await namespace.create_queue("t", {"requires_duplicate_detection": True})
    queue = await namespace.create_queue(
        "orders", {"forward_dead_lettered_messages_to": "t"}
    )
    named = Message(properties=Properties(message_id="a"), body=AmqpValue("x"))
    sent = read_message(encode_message(named))

    def end() -> None:
        namespace.forwarders.stop(queue)
        target.fragment().drop()

    world.store.before_look_up = end
    queue.fragment().reject(sent, "why", "", world.clock.now(), owner.changes)
    owner.wake()
    await world.settled()
    client, dead_letters = Client(wanted=1), queue.fragment(DEAD_LETTER)
    owner.join(dead_letters, client)
    owner.offer_capacity(dead_letters, client)
    assert len(client.locks) == 1
