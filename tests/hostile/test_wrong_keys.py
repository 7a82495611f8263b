"""Who guesses keys has to wait, on every door; who has a key is served meanwhile."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from crash.server_process import ServerProcess

from hostile.caller import Caller, entry
from hostile.stranger import TRANSFER, Stranger
from hostile.websocket_bridge import websocket_bridge
from twinbus.amqp.messaging import AmqpValue, Message, encode_message
from twinbus.amqp.sasl import plain
from twinbus.client import ClientError, RequestFailed, connect
from twinbus.client.management import ask, ask_namespace
from twinbus.config.config import ROOT_KEY_NAME
from twinbus.errors import MessagingEntityNotFound

ALLOWED = 5
CONFIG = f"""
[server]
max_failed_attempts = {ALLOWED}
[[rules]]
key_name = "sender"
primary_key = "only-sending!"
rights = ["Send"]
[queues.target]
[topics.news.subscriptions.all]
"""
FALSE = '<Filter i:type="FalseFilter"/><Name>none</Name>'
AUDIT = " twinbus.audit: "
WRONG = "a wrong key, 0123456789"
RULE = encode_message(
    Message(
        application_properties={"operation": "com.microsoft:add-rule"},
        body=AmqpValue({"rule-name": "x"}),
    )
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path, CONFIG) as running:
        running.start_now()
        yield running


async def by_plain(server: ServerProcess, name: str, key: str) -> bool:
    return await is_let_in(server.port, name, key)


async def by_websocket(server: ServerProcess, name: str, key: str) -> bool:
    async with websocket_bridge(server.port) as port:
        return await is_let_in(port, name, key)


async def is_let_in(port: int, name: str, key: str) -> bool:
    try:
        async with await connect("127.0.0.1", port, sasl=plain(name, key)):
            return True
    except ClientError:
        return False


async def by_cbs(server: ServerProcess, name: str, key: str) -> bool:
    token = Caller(server).token("target", key_name=name, key=key)
    async with await connect("127.0.0.1", server.port) as connection:
        try:
            await connection.put_token("sb://bus/target", token)
        except RequestFailed as error:
            assert error.status == 401
            return False
        return True


async def by_http(server: ServerProcess, name: str, key: str) -> bool:
    call = Caller(server)
    token = call.token("target", key_name=name, key=key)
    answer = await call("POST", "/target/messages", b"x", token=token)
    if answer.status == 503:
        assert int(answer.headers["retry-after"]) >= 1
    return answer.status == 201


DOORS = (by_plain, by_websocket, by_cbs, by_http)


@pytest.mark.parametrize("door", DOORS)
async def test_guessing_is_slowed_down_at_every_door(
    server: ServerProcess, door: object
) -> None:
    """Even the right key is refused then: nobody learns that it is the right one."""
    for _ in range(ALLOWED + 3):
        assert not await door(server, ROOT_KEY_NAME, WRONG)  # type: ignore[operator]
    for other in DOORS:
        assert not await other(server, ROOT_KEY_NAME, server.key)
    # Another key name is not concerned.
    for other in DOORS:
        assert await other(server, "sender", "only-sending!")
    assert "showed a wrong key or signature for the rule" in server.errors
    assert WRONG not in server.errors


async def test_wait_has_an_end(server: ServerProcess) -> None:
    for _ in range(ALLOWED):
        assert not await by_plain(server, ROOT_KEY_NAME, WRONG)
    ends_at = time.monotonic() + 60
    while not await by_plain(server, ROOT_KEY_NAME, server.key):
        assert time.monotonic() < ends_at
    # The right key has ended the count.
    assert not await by_plain(server, ROOT_KEY_NAME, WRONG)
    assert await by_plain(server, ROOT_KEY_NAME, server.key)


async def test_open_connection_renews_its_token_meanwhile(
    server: ServerProcess,
) -> None:
    call = Caller(server)
    async with await connect("127.0.0.1", server.port) as connection:
        await connection.put_token("sb://bus/target", call.token("target"))
        for _ in range(ALLOWED + 3):
            assert not await by_cbs(server, ROOT_KEY_NAME, WRONG)
        await connection.put_token("sb://bus/target", call.token("target"))


async def test_requests_that_prove_nothing_do_not_end_the_count(
    server: ServerProcess,
) -> None:
    """Health needs no key, so its answer says nothing about one."""
    call = Caller(server)
    for _ in range(ALLOWED + 1):
        await by_http(server, ROOT_KEY_NAME, WRONG)
        wrong = call.token(key=WRONG)
        await call("GET", "/health", token=wrong)
    assert (await call("GET", "/target")).status == 503


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        # Nothing is asked for here, but with the right key the connection is kept.
        ("GET", "/health", b""),
        ("GET", "/$servicebus/websocket", b""),
        # More may be sent with the right key.
        ("POST", "/$bulk/append", bytes(100_000)),
        ("POST", "/target/messages", bytes(2_000_000)),
        ("PUT", "/target", bytes(100_000)),
    ],
    ids=["health", "websocket", "bulk", "messages", "administration"],
)
async def test_no_request_tells_uncounted_whether_a_key_is_right(
    server: ServerProcess, method: str, target: str, body: bytes
) -> None:
    call = Caller(server)
    for _ in range(ALLOWED):
        with contextlib.suppress(ConnectionError):
            await call(method, target, body, token=call.token(key=WRONG))
    assert (await call("GET", "/target")).status == 503


async def test_unfinished_requests_are_attempts(server: ServerProcess) -> None:
    """The headers are enough to become one who has a key."""
    call = Caller(server)
    wrong = call.token(key=WRONG).encode()
    said = b"PUT /target HTTP/1.1\r\nHost: bus\r\nAuthorization: " + wrong
    for _ in range(ALLOWED):
        async with await Stranger.dial(server) as stranger:
            stranger.write(said + b"\r\nContent-Length: 9\r\n")
            stranger.write(b"Expect: 100-continue\r\n\r\n")
            # 503 once it is too often.
            head = await stranger.read_until(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 100 "), head
    assert (await call("GET", "/target")).status == 503


async def test_with_one_key_others_are_not_tried_uncounted(
    server: ServerProcess,
) -> None:
    """On a connection that has shown a key already."""
    call = Caller(server)
    own = call.token(key_name="sender", key="only-sending!").encode()
    wrong = call.token(key=WRONG).encode()
    first = b"GET /target HTTP/1.1\r\nHost: bus\r\nAuthorization: " + own
    guess = b"POST /$bulk/append HTTP/1.1\r\nHost: bus\r\nAuthorization: " + wrong
    for _ in range(ALLOWED):
        async with await Stranger.dial(server) as stranger:
            stranger.write(first + b"\r\n\r\n")
            stranger.write(guess + b"\r\nContent-Length: 100000\r\n\r\n")
            assert b"HTTP/1.1 401 " in await stranger.read_until(b"HTTP/1.1 401 ")
            await stranger.expect_end()
    assert (await call("GET", "/target")).status == 503


async def test_who_has_no_key_fills_no_log(server: ServerProcess) -> None:
    call, count = Caller(server), 300
    refused = b"DELETE /%s HTTP/1.1\r\nHost: bus\r\n" % (b"x" * 1_000)
    token = call.token(key_name="nobody", key=WRONG).encode()
    with_wrong_key = refused + b"Authorization: " + token + b"\r\n"
    for said in (refused, with_wrong_key):
        async with await Stranger.dial(server) as stranger:
            last = said + b"Connection: close\r\n\r\n"
            stranger.write((said + b"\r\n") * (count - 1) + last)
            assert (await stranger.expect_end()).count(b"HTTP/1.1 ") == count
    before = len(server.errors)
    async with await Stranger.dial(server) as stranger:
        await stranger.open(server, "")
        node = "x" * 20_000 + "/$management"
        stranger.attach(node, handle=0, is_receiver=True)
        stranger.credit(count, handle=0)
        stranger.attach(node, handle=1)
        for _ in range(50):
            stranger.transfer(RULE, handle=1)
            await stranger.expect(TRANSFER)
    assert len(server.errors) - before < 2_000
    lines = [line for line in server.errors.splitlines() if AUDIT in line]
    # One a second, and it takes some.
    assert 1 <= len(lines) < 20
    assert max(map(len, lines)) < 1_000


async def test_claims_that_are_missing_are_no_wrong_keys(
    server: ServerProcess,
) -> None:
    call = Caller(server)
    token = call.token(key_name="sender", key="only-sending!")
    for _ in range(ALLOWED + 3):
        assert (await call("PUT", "/new", token=token)).status == 401
        assert (
            await call("GET", "/target", token=call.token(seconds=-9))
        ).status == 401
    assert await by_http(server, "sender", "only-sending!")
    assert await by_http(server, ROOT_KEY_NAME, server.key)


async def test_administration_is_audited(server: ServerProcess) -> None:
    """Who, what and the result, at the default log level."""
    call = Caller(server)
    await call("DELETE", "/target")
    sender = call.token(key_name="sender", key="only-sending!")
    await call("DELETE", "/target", token=sender)
    await call("GET", "/$Resources/queues")
    rule = "/news/Subscriptions/all/Rules/none"
    await call("PUT", rule, entry("Rule", FALSE))
    async with await server.connect() as connection:
        asked = {"path": "", "key_name": "shop", "rights": '["Send"]'}
        await ask_namespace(connection, "create-key", asked)
        with pytest.raises(MessagingEntityNotFound):
            asked = {"path": "nothing", "key_name": "shop", "key": "primary"}
            await ask_namespace(connection, "regenerate-key", asked)
        path = "news/Subscriptions/all"
        await ask(connection, path, "remove-rule", {"rule-name": "none"})
    lines = [line for line in server.errors.splitlines() if " twinbus.audit: " in line]
    told = [
        line.partition(" twinbus.audit: ")[2].partition(" with ")[2] for line in lines
    ]
    assert told == [
        f"key '{ROOT_KEY_NAME}': DELETE /target: HTTP 200",
        "key 'sender': DELETE /target: HTTP 401",
        f"key '{ROOT_KEY_NAME}': PUT {rule}: HTTP 201",
        f"key '{ROOT_KEY_NAME}': create-key '' 'shop': done",
        f"key '{ROOT_KEY_NAME}': regenerate-key 'nothing' 'shop': refused, "
        "MessagingEntityNotFound",
        f"key '{ROOT_KEY_NAME}': remove-rule '{path}' 'none': done",
    ]
    assert "127.0.0.1:" in lines[0]
