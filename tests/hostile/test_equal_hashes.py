"""Many keys with the same hash in Python are refused, not compared.

The hash of a UUID is its remainder by a prime. So anybody can make any number of UUIDs
with the same hash, and a dictionary would compare each with all others.
"""

from uuid import UUID

import pytest
from crash import messages
from crash.server_process import ServerProcess

from hostile.stranger import ATTACH, CLOSE, FLOW, Stranger
from hostile.witness import Witness
from twinbus.amqp.handshake import AMQP_HEADER, SASL_HEADER
from twinbus.amqp.messaging import AmqpValue, Message
from twinbus.amqp.sasl import SaslInit, plain, sasl_frame
from twinbus.amqp.types import AmqpArray, Described, Encoded, UInt, ULong
from twinbus.client import ClientConnection, NotAccepted, connect

OPEN, BEGIN = 0x10, 0x11
_UUID, _PRIME = 0x98, (1 << 61) - 1


def equal_hashes(count: int) -> list[UUID]:
    return [UUID(int=number * _PRIME) for number in range(1, count + 1)]


def flood(count: int) -> Encoded:
    """A map with so many of them, made without a dictionary."""
    entries = b"".join(b"\x98" + key.bytes + b"\x40" for key in equal_hashes(count))
    size, items = (len(entries) + 4).to_bytes(4, "big"), (2 * count).to_bytes(4, "big")
    return Encoded(b"\xd1" + size + items + entries)


# As much as one frame holds, and as one request may have.
FRAME = flood(3_300)
REQUEST = flood(30_000)


def source(filter: object = None) -> Described:
    nothing: list[object] = [None] * 6
    return Described(ULong(0x28), ["x", *nothing, filter])


def attach(where: str) -> list[object]:
    nothing: list[object] = [None] * 4
    given = source(FRAME) if where == "filter" else source()
    unsettled = FRAME if where == "unsettled" else None
    properties = FRAME if where == "properties" else None
    ends: list[object] = [True, None, None, given, None]
    return ["flood", UInt(0), *ends, unsettled, *nothing[:3], *nothing[:2], properties]


@pytest.mark.parametrize("where", ["properties", "unsettled", "filter"])
async def test_a_link_of_a_stranger_without_a_key(
    server: ServerProcess, where: str
) -> None:
    async with Witness(server):
        for _ in range(3):
            async with await Stranger.dial(server) as stranger:
                await stranger.open(server, "")
                stranger.perform_raw(ATTACH, attach(where))
                assert await stranger.expect_error(CLOSE) == "amqp:decode-error"
                await stranger.expect_end()


async def test_an_open_of_a_stranger_without_a_key(server: ServerProcess) -> None:
    async with Witness(server), await Stranger.dial(server) as stranger:
        stranger.write(SASL_HEADER + sasl_frame(SaslInit(mechanism="ANONYMOUS")))
        stranger.write(AMQP_HEADER)
        nothing: list[object] = [None] * 8
        stranger.perform_raw(OPEN, ["x", *nothing, FRAME])
        assert await stranger.expect_error(CLOSE) == "amqp:decode-error"


async def test_a_session_of_a_stranger_without_a_key(server: ServerProcess) -> None:
    async with Witness(server), await Stranger.dial(server) as stranger:
        await stranger.open(server, "")
        nothing: list[object] = [None] * 3
        fields = [None, UInt(0), UInt(1), UInt(1), *nothing, FRAME]
        stranger.perform_raw(BEGIN, fields, 1)
        assert await stranger.expect_error(CLOSE) == "amqp:decode-error"


async def test_properties_of_a_flow_are_not_even_decoded(server: ServerProcess) -> None:
    async with Witness(server), await Stranger.dial(server) as stranger:
        await stranger.open(server, "")
        nothing: list[object] = [None] * 6
        stranger.perform_raw(FLOW, [*[UInt(0)] * 4, *nothing, FRAME])
        stranger.attach("$cbs", is_receiver=True)
        await stranger.expect(ATTACH)


async def ask(connection: ClientConnection, operation: str, body: object) -> str:
    request = Message(
        application_properties={"operation": f"com.microsoft:{operation}"},
        body=AmqpValue(body),
    )
    answer = await connection.request("target/$management", request)
    return str((answer.application_properties or {})["statusDescription"])


async def test_a_request_with_a_key_to_send(server: ServerProcess) -> None:
    key = plain("sender", "only-sending!")
    async with (
        Witness(server),
        await connect("127.0.0.1", server.port, sasl=key) as connection,
    ):
        answer = await ask(connection, "peek-message", REQUEST)
        assert "a map has more than 1024 keys that are numbers" in answer
        answer = await ask(connection, "peek-message", [None] * 70_000)
        assert "it has more than 65536 values in it" in answer


async def test_annotations_of_a_message(server: ServerProcess) -> None:
    async with Witness(server), await server.connect() as connection:
        sender = await connection.sender("target")
        with pytest.raises(NotAccepted, match="a map has more than 1024 keys"):
            await sender.send(b"\x00\x53\x72" + FRAME + b"\x00\x53\x75\xa0\x00")
        await sender.send(messages.named("sound"))


async def test_lock_tokens(server: ServerProcess) -> None:
    tokens = AmqpArray(_UUID, list(equal_hashes(4_096)))
    async with Witness(server), await server.connect() as connection:
        answer = await ask(connection, "renew-lock", {"lock-tokens": tokens})
        assert "lock" in answer.lower()
