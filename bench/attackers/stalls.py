"""Cheap input that used to cost the bus seconds (number 7 of what was found)."""

import itertools

from bench.attackers import aim
from bench.attackers.aim import Aim
from bench.attackers.raw_connection import RawConnection
from bench.attackers.raw_frames import (
    ATTACH,
    DISPOSITION,
    FLOW,
    attach_frame,
    credit_frame,
    detach_frame,
    disposition_frame,
    transfer_frame,
    window_frame,
)
from bench.attackers.tally import Tally
from twinbus.amqp.messaging import AmqpValue, Data, Message, encode_message
from twinbus.amqp.sasl import plain
from twinbus.amqp.types import AmqpArray, UInt
from twinbus.client import connect

_LINKS = 990
_FRAMES_AT_ONCE = 500
_UNSETTLED = 9_990
_HEARD_SECONDS = 0.05
_LONG = 0x81


async def window_flapping(found: Aim, tally: Tally) -> None:
    """A session of many receivers, whose window closes and opens."""
    async with await RawConnection.dial(found, aim.LISTENER) as connection:
        for handle in range(_LINKS):
            await connection.write(
                attach_frame(aim.TARGET, handle=handle, is_receiver=True)
            )
        for _ in range(_LINKS):
            await connection.expect(ATTACH)
        for handle in range(_LINKS):
            await connection.write(credit_frame(1, handle))
        flapping = (window_frame(0) + window_frame(1_000)) * _FRAMES_AT_ONCE
        while True:
            await connection.write(flapping)
            tally.bite_count += 1
            await connection.hear_out(_HEARD_SECONDS)


async def dispositions_of_others(found: Aim, tally: Tally) -> None:
    """One that holds many deliveries, and settles ids that it was never given."""
    async with await RawConnection.dial(found, aim.LISTENER) as connection:
        await connection.write(attach_frame(aim.SMALL, is_receiver=True))
        await connection.expect(ATTACH)
        await connection.write(credit_frame(_UNSETTLED))
        await connection.hear_out(3.0)
        wrong = b"".join(
            disposition_frame(first, first + 20_000)
            for first in range(100_000, 100_000 + _FRAMES_AT_ONCE)
        )
        while True:
            await connection.write(wrong)
            tally.bite_count += 1
            await connection.hear_out(_HEARD_SECONDS)


async def like_rules(found: Aim, tally: Tally) -> None:
    """A message with a long property, for rules that look at all of it."""
    message = Message(
        application_properties={"p": "a" * 60_000}, body=Data((b"for nobody",))
    )
    payload = encode_message(message)
    async with await RawConnection.dial(found, aim.SENDER) as connection:
        await connection.write(attach_frame(aim.TOPIC))
        await connection.expect(FLOW)
        for delivery_id in itertools.count():
            await connection.write(transfer_frame(delivery_id, payload))
            tally.bite_count += 1
            await connection.expect(DISPOSITION)


async def deferred_at_once(found: Aim, tally: Tally) -> None:
    """One request for all deferred messages of a queue, hundreds of megabytes."""
    numbers: list[object] = list(range(1, aim.DEFERRED_COUNT + 1))
    sasl = plain(aim.LISTENER, found.keys[aim.LISTENER])
    request = Message(
        application_properties={
            "operation": "com.microsoft:receive-by-sequence-number"
        },
        body=AmqpValue(
            {
                "sequence-numbers": AmqpArray(_LONG, numbers),
                "receiver-settle-mode": UInt(1),
            }
        ),
    )
    connection = await connect("127.0.0.1", found.port, sasl=sasl)
    try:
        while True:
            tally.bite_count += 1
            await connection.request(f"{aim.DEFERRED}/$management", request)
    finally:
        connection.abort()


async def attach_and_detach(found: Aim, tally: Tally) -> None:
    """Links that come and go."""
    async with await RawConnection.dial(found, aim.LISTENER) as connection:
        for number in itertools.count():
            frames = [
                attach_frame(aim.SMALL, is_receiver=True, name=f"link-{number}-{step}")
                + detach_frame()
                for step in range(_FRAMES_AT_ONCE)
            ]
            await connection.write(b"".join(frames))
            tally.bite_count += 1
            await connection.hear_out(_HEARD_SECONDS)
