"""Links to missing entities, too many links, and links with the name of another."""

import signal
from collections.abc import Callable

import pytest
from crash import messages
from crash.server_process import ServerProcess

from hostile.stranger import ATTACH, CLOSE, DETACH, Stranger
from hostile.witness import Witness
from twinbus.client import LinkClosed

LIMIT = 1_000


@pytest.mark.parametrize(
    "address", ["nothing", "target/$other", "", "x" * 300, "$management/x", "a//b"]
)
async def test_an_entity_that_is_not_there(server: ServerProcess, address: str) -> None:
    async with Witness(server), await server.connect() as connection:
        with pytest.raises(LinkClosed) as refusal:
            await connection.sender(address)
        assert refusal.value.error is not None
        assert refusal.value.error.condition in (
            "amqp:not-found",
            "com.microsoft:argument-error",
            "amqp:invalid-field",
            "amqp:not-allowed",
        )
        with pytest.raises(LinkClosed):
            await connection.receiver(address)
        await connection.sender("target")


async def test_more_links_than_a_connection_may_have(server: ServerProcess) -> None:
    async with Witness(server), await Stranger.dial(server) as stranger:
        await stranger.open(server)
        stranger.begin(1)
        for handle in range(LIMIT):
            stranger.attach("target", handle=handle)
        for handle in range(5):
            stranger.attach("target", handle=handle, channel=1)
        for _ in range(5):
            condition = await stranger.expect_error(DETACH)
            assert condition == "amqp:resource-limit-exceeded"
        stranger.transfer(messages.named("on a link within the limit"))
        assert await stranger.expect_outcome() == (0x24, "")


async def test_peer_that_detaches_no_refused_link_is_closed(
    server: ServerProcess,
) -> None:
    """Refused links are kept until they are detached, so their number is limited."""
    before = server.memory_bytes()
    async with Witness(server), await Stranger.dial(server) as stranger:
        await stranger.open(server)
        stranger.begin(1)
        stranger.begin(2)
        for number in range(2 * LIMIT + 1):
            handle, channel = number % LIMIT, number // LIMIT
            stranger.attach("target", handle=handle, channel=channel)
        condition = await stranger.expect_error(CLOSE)
        assert condition == "amqp:resource-limit-exceeded"
        assert server.memory_bytes() - before < 64 * 1024 * 1024


async def test_a_handle_above_the_limit(server: ServerProcess) -> None:
    async with Witness(server), await Stranger.dial(server) as stranger:
        await stranger.open(server)
        stranger.attach("target", handle=LIMIT)
        assert await stranger.expect_error(CLOSE) == "amqp:connection:framing-error"


async def test_more_sessions_than_a_connection_may_have(server: ServerProcess) -> None:
    async with Witness(server), await Stranger.dial(server) as stranger:
        await stranger.open(server)
        for channel in range(1, LIMIT + 1):
            stranger.begin(channel)
        assert await stranger.expect_error(CLOSE) == "amqp:connection:framing-error"
        await stranger.expect_end()


async def test_a_link_with_the_name_of_anothers(server: ServerProcess) -> None:
    """Names belong to a pair of containers: nobody can push a stranger's link out."""
    async with Witness(server), await server.connect() as connection:
        sender = await connection.sender("target", name="precious")
        async with await Stranger.dial(server) as stranger:
            await stranger.open(server)
            stranger.attach("target", name="precious")
            await stranger.expect(ATTACH)
            await sender.send(messages.named("undisturbed"))
            stranger.attach("target", name="precious", handle=1)
            await stranger.expect(ATTACH)
        await sender.send(messages.named("still there"))


async def test_attaching_and_detaching_without_rest(server: ServerProcess) -> None:
    before = server.memory_bytes()
    async with Witness(server), await Stranger.dial(server) as stranger:
        await stranger.open(server)
        for _ in range(1_000):
            stranger.attach("target", is_receiver=True)
            stranger.perform_raw(DETACH, [0, True])
            await stranger.expect(DETACH)
        assert server.memory_bytes() - before < 16 * 1024 * 1024


async def test_more_messages_than_the_credit_allows(
    make_server: Callable[..., ServerProcess],
) -> None:
    server = make_server()
    async with await Stranger.dial(server) as stranger:
        await stranger.open(server)
        stranger.attach("target")
        await stranger.expect(ATTACH)
        # Frozen, so that all of it is there when the bus looks.
        server.signal(signal.SIGSTOP)
        for number in range(5_000):
            stranger.transfer(messages.named(f"{number}", 0))
        server.signal(signal.SIGCONT)
        async with Witness(server):
            condition = await stranger.expect_error(DETACH)
            assert condition == "amqp:link:transfer-limit-exceeded"
