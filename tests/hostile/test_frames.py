"""Invalid frames and messages: each has a defined answer and does not affect others."""

import pytest
from crash import messages
from crash.server_process import ServerProcess

from hostile.stranger import ATTACH, CLOSE, DISPOSITION, END, Closed, Stranger
from hostile.witness import Witness
from twinbus.amqp.encoder import encode
from twinbus.amqp.messaging import Data, Message, Properties, encode_message
from twinbus.amqp.types import Symbol
from twinbus.client import NotAccepted

MEGABYTE = 1024 * 1024
ACCEPTED, REJECTED = 0x24, 0x25


@pytest.mark.parametrize(
    "start",
    [
        b"\x7f\xff\xff\xff\x02\x00\x00\x00",
        b"\x00\x01\x00\x01\x02\x00\x00\x00",
        b"\x00\x00\x00\x07\x02\x00\x00\x00",
        b"\x00\x00\x00\x00\x02\x00\x00\x00",
        b"\x00\x00\x00\x20\x01\x00\x00\x00" + bytes(24),
        b"\x00\x00\x00\x20\xff\x00\x00\x00" + bytes(24),
        b"\x00\x00\x00\x20\x02\x01\x00\x00" + bytes(24),
    ],
    ids=["huge", "large", "7", "0", "offset-1", "offset-255", "type-1"],
)
async def test_a_frame_that_is_none(server: ServerProcess, start: bytes) -> None:
    async with Witness(server), await Stranger.dial(server) as stranger:
        await stranger.open(server)
        stranger.write(start)
        condition = await stranger.expect_error(CLOSE)
        assert condition == "amqp:connection:framing-error"
        await stranger.expect_end()


async def test_an_oversize_message_is_rejected_and_the_link_lives_on(
    server: ServerProcess,
) -> None:
    async with Witness(server), await server.connect() as connection:
        sender = await connection.sender("target")
        with pytest.raises(NotAccepted, match="message-size-exceeded"):
            await sender.send(messages.named("large", 300_000))
        await sender.send(messages.named("small"))


@pytest.mark.parametrize("size", [MEGABYTE, 40 * MEGABYTE])
async def test_frames_of_a_delivery_without_end(
    server: ServerProcess, size: int
) -> None:
    """What outgrew the limit is counted, not kept."""
    async with Witness(server), await Stranger.dial(server) as stranger:
        await stranger.open(server)
        stranger.attach("target")
        await stranger.expect(ATTACH)
        before = server.memory_bytes()
        stranger.transfer(b"", more=True)
        for _ in range(size // 60_000):
            stranger.more(bytes(60_000))
            await stranger.drain()
        stranger.more(b"", last=True)
        outcome = await stranger.expect_outcome()
        assert outcome == (REJECTED, "amqp:link:message-size-exceeded")
        assert server.memory_bytes() - before < 16 * MEGABYTE


async def test_many_deliveries_that_are_never_finished(server: ServerProcess) -> None:
    """One connection may not keep a hundred half messages of full size."""
    async with Witness(server), await Stranger.dial(server) as stranger:
        await stranger.open(server)
        before = server.memory_bytes()
        with pytest.raises((Closed, ConnectionError)):
            for handle in range(100):
                stranger.attach("target", handle=handle)
                await stranger.expect(ATTACH)
                stranger.transfer(b"", handle=handle, more=True)
                for _ in range(4):
                    stranger.more(bytes(60_000), handle=handle)
                    await stranger.drain()
            await stranger.expect_error(CLOSE)
            raise Closed
        assert server.memory_bytes() - before < 32 * MEGABYTE


async def test_an_endless_frame_is_not_waited_for(server: ServerProcess) -> None:
    """A frame that stays incomplete costs at most its own size."""
    async with Witness(server), await Stranger.dial(server) as stranger:
        await stranger.open(server)
        before = server.memory_bytes()
        stranger.write(b"\x00\x01\x00\x00\x02\x00\x00\x00")
        for _ in range(60_000 // 100):
            stranger.write(bytes(100))
            await stranger.drain()
        assert server.memory_bytes() - before < 8 * MEGABYTE


def nested(depth: int) -> bytes:
    """A message whose annotations are a list in a list in a list."""
    value = b"\x45"
    for _ in range(depth):
        value = b"\xd0" + (len(value) + 4).to_bytes(4, "big") + b"\0\0\0\x01" + value
    pair = encode(Symbol("deep")) + value
    annotations = b"\xd1" + (len(pair) + 4).to_bytes(4, "big") + b"\0\0\0\x02" + pair
    return b"\x00\x53\x72" + annotations + b"\x00\x53\x75\xa0\x00"


@pytest.mark.parametrize(
    ("payload", "condition"),
    [
        (nested(5_000), "com.microsoft:argument-error"),
        (
            encode_message(
                Message(properties=Properties(message_id="x" * 129), body=Data((b"",)))
            ),
            "com.microsoft:argument-error",
        ),
        (
            encode_message(
                Message(
                    message_annotations={Symbol("fat"): bytes(70_000)},
                    body=Data((b"",)),
                )
            ),
            "amqp:link:message-size-exceeded",
        ),
        (b"\x00\x53\x75", "com.microsoft:argument-error"),
        (b"\xff" * 100, "com.microsoft:argument-error"),
    ],
    ids=["nested", "long-id", "fat-annotations", "truncated", "garbage"],
)
async def test_a_message_that_cannot_be_taken(
    server: ServerProcess, payload: bytes, condition: str
) -> None:
    async with Witness(server), await server.connect() as connection:
        sender = await connection.sender("target")
        with pytest.raises(NotAccepted) as refusal:
            await sender.send(payload)
        assert refusal.value.error is not None
        assert refusal.value.error.condition == condition
        await sender.send(messages.named("sound"))


async def test_credit_for_all_there_is(server: ServerProcess) -> None:
    async with Witness(server), await server.connect() as connection:
        sender = await connection.sender("target")
        await sender.send_many([messages.named(f"m{n}") for n in range(3_000)])
        async with await Stranger.dial(server) as stranger:
            await stranger.open(server)
            stranger.attach("target", is_receiver=True)
            stranger.credit(0xFFFFFFFF)
            for _ in range(3_000):
                await stranger.expect(0x14)


@pytest.mark.parametrize("last", [0x7FFFFFFF, 0xFFFFFFFF])
async def test_a_disposition_of_everything(server: ServerProcess, last: int) -> None:
    """The deliveries that exist are settled, or the session is ended."""
    async with Witness(server), await server.connect() as connection:
        sender = await connection.sender("target")
        await sender.send(messages.named("settle me"))
        async with await Stranger.dial(server) as stranger:
            await stranger.open(server)
            stranger.attach("target", is_receiver=True)
            stranger.credit(1)
            await stranger.expect(0x14)
            stranger.dispose(0, last)
            if last == 0x7FFFFFFF:
                fields = await stranger.expect(DISPOSITION)
                assert fields[4].descriptor in (ACCEPTED, REJECTED)
            else:
                assert await stranger.expect_error(END) == "amqp:invalid-field"


async def test_a_disposition_of_an_answer(server: ServerProcess) -> None:
    """Answers of a node are deliveries, too; settling one is nothing special."""
    async with Witness(server), await Stranger.dial(server) as stranger:
        await stranger.open(server)
        stranger.attach("$cbs", handle=0)
        stranger.attach("$cbs", handle=1, is_receiver=True)
        stranger.credit(10, handle=1)
        request = Message(
            properties=Properties(message_id="1", reply_to="$cbs"),
            application_properties={"operation": "put-token"},
            body=Data((b"",)),
        )
        stranger.transfer(encode_message(request))
        await stranger.expect(0x14)
        stranger.dispose(0, 0)
        # The connection goes on.
        stranger.transfer(encode_message(request))
        await stranger.expect(0x14)
