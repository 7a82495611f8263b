"""Bulk requests without authorization, and invalid bodies.

The answers are JSON, so these routes are not in `test_http_tokens`. Otherwise the rules
are the same: without a claim nothing is revealed, the bus survives any input, and its
other clients notice nothing.
"""

import asyncio
import json
from random import Random

import pyarrow as pa
import pytest
from bulk.caller import append_body
from crash.server_process import ServerProcess
from wire.message import data_message

from hostile.caller import Answer, Caller
from hostile.stranger import Stranger
from hostile.test_http_tokens import METHODS, tampered
from hostile.witness import Witness

NAMES = ("runtime", "lease", "plan", "browse", "settle", "append")
ROUTES = (
    *("/$bulk", "/$bulk/", "/%24bulk", "/$bulk?api-version=2021-05"),
    *(f"/$bulk/{name}" for name in NAMES),
    *("/$bulk/nothing", "/$bulk/runtime/more", "/$bulk/../target", "/$bulk//lease"),
    *("/$bulk/%00", f"/$bulk/{'a' * 1_000}"),
)
# Of a request to an entity that is there.
LEASE = {"reader": "r", "duration_ms": 5_000, "entities": [{"path": "target"}]}


def message_of(answer: Answer) -> str:
    return str(json.loads(answer.body)["error"]["message"])


@pytest.mark.parametrize("method", METHODS)
async def test_no_bulk_request_without_a_token(
    server: ServerProcess, method: str
) -> None:
    call = Caller(server)
    async with Witness(server):
        for route in ROUTES:
            answer = await call(method, route, json.dumps(LEASE), token="")
            assert (answer.status, route) == (401, route)
            assert method == "HEAD" or "MissingToken" in message_of(answer)


@pytest.mark.parametrize("route", ROUTES[:10])
async def test_tokens_that_are_none(server: ServerProcess, route: str) -> None:
    call = Caller(server)
    bad = [
        *("Bearer x", "SharedAccessSignature ", "SharedAccessSignature x"),
        *(call.token(key="of another bus"), call.token(key_name="nobody")),
        *(call.token(seconds=-60), *tampered(call.token())),
        "SharedAccessSignature sr=a&sig=%ff%00&se=9999999999&skn=%ff",
    ]
    async with Witness(server):
        for token in bad:
            answer = await call("POST", route, json.dumps(LEASE), token=token)
            assert (answer.status, token) == (401, token)
            assert "sig=" not in message_of(answer)


async def test_rights_to_use_are_kept_apart(server: ServerProcess) -> None:
    """Who may send cannot read, and the other way round."""
    call = Caller(server)
    sender = call.token(key_name="sender", key="only-sending!")
    listener = call.token(key_name="listener", key="only-listening")
    path = {"path": "target", "generation": "g", "from": 0, "to": 1}
    reads = {
        "runtime": {"entities": ["target"]},
        "lease": LEASE,
        "plan": {"entities": [{"path": "target", "generation": "g"}]},
        "browse": path,
        "settle": {"reader": "r", "entities": [{"path": "target", "epoch": "1"}]},
    }
    async with Witness(server):
        for name, content in reads.items():
            body = json.dumps(content)
            answer = await call("POST", f"/$bulk/{name}", body, token=sender)
            assert (answer.status, name) == (401, name)
            assert "'Listen' claim(s) are required" in message_of(answer)
            answer = await call("POST", f"/$bulk/{name}", body, token=listener)
            assert answer.status != 401, name
        rows = append_body([("target", data_message("x"))])
        answer = await call("POST", "/$bulk/append", rows, token=listener)
        assert answer.status == 401


async def test_refusals_do_not_tell_what_exists(server: ServerProcess) -> None:
    call = Caller(server)
    token = call.token("elsewhere")
    told = set()
    for path in ("target", "unknown"):
        body = json.dumps({"entities": [path]})
        answer = await call("POST", "/$bulk/runtime", body, token=token)
        assert answer.status == 401
        text = message_of(answer).partition("TrackingId")[0]
        told.add(text.replace(path, "it"))
    assert len(told) == 1
    body = json.dumps({"pattern": "*"})
    answer = await call("POST", "/$bulk/runtime", body, token=token)
    assert json.loads(answer.body) == {"entities": [], "missing": []}


def broken(body: bytes, random: Random) -> bytes:
    """The body with some of its bytes changed, cut off or put twice."""
    changed = bytearray(body)
    for _ in range(random.randint(1, 8)):
        at = random.randrange(len(changed))
        choice = random.randrange(4)
        if choice == 0:
            changed[at] = random.randrange(256)
        elif choice == 1:
            changed[at : at + 4] = random.choice((b"\xff\xff\xff\x7f", bytes(4)))
        elif choice == 2:
            del changed[at : at + random.randint(1, 50)]
        else:
            changed[at:at] = changed[max(0, at - 20) : at]
        if not changed:
            break
    return bytes(changed)


@pytest.mark.parametrize("seed", range(4))
async def test_appends_that_were_damaged(server: ServerProcess, seed: int) -> None:
    """Refused, or taken for what they still say; never a bug, never a crash."""
    random = Random(seed)
    call = Caller(server)
    rows = append_body(("target", data_message(str(n))) for n in range(20))
    async with Witness(server):
        for _ in range(60):
            answer = await call("POST", "/$bulk/append", broken(rows, random))
            assert answer.status in (200, 400), answer.body
    assert "Traceback" not in server.errors


@pytest.mark.parametrize("name", NAMES[:5])
async def test_json_that_was_damaged(server: ServerProcess, name: str) -> None:
    random = Random(name)
    call = Caller(server)
    whole = json.dumps(
        {
            **LEASE,
            **{"path": "target", "generation": "g", "from": {"0": 1}, "to": 5},
            **{"columns": ["body"], "states": ["active"], "max_bytes": 10},
        }
    ).encode()
    async with Witness(server):
        for _ in range(60):
            body = broken(whole, random)
            answer = await call("POST", f"/$bulk/{name}", body)
            assert answer.status in (400, 404, 409, 410), (answer, body)


@pytest.mark.parametrize(
    "columns",
    [
        {"entity": pa.array([["target"]]), "message": pa.array([[b"x"]])},
        {
            "entity": pa.array(["target"]).dictionary_encode(),
            "message": pa.array([b"x"]).dictionary_encode(),
        },
        {"entity": pa.nulls(1), "message": pa.nulls(1)},
        {"entity": pa.array(["t" * 1_000_000]), "message": pa.array([b"x"])},
        {"entity": pa.array(["\ud7ff\n\x00" * 9]), "message": pa.array([b"x"])},
    ],
    ids=["lists", "dictionaries", "nulls", "long", "odd"],
)
async def test_appends_of_another_kind(
    server: ServerProcess, columns: dict[str, pa.Array]
) -> None:
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    call = Caller(server)
    async with Witness(server):
        answer = await call("POST", "/$bulk/append", sink.getvalue().to_pybytes())
    if answer.status == 200:
        [refused] = json.loads(answer.body)["refused"]
        assert refused["condition"] == "amqp:not-found"
        assert len(answer.body) < 10_000, "a refusal repeats what was sent"
    else:
        assert answer.status == 400


async def test_a_small_body_that_unfolds(server: ServerProcess) -> None:
    """Arrow compresses: what is small on the wire must not be large in memory."""
    schema = pa.schema([("entity", pa.string()), ("message", pa.binary())])
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        huge = pa.record_batch([["target"], [bytes(200_000_000)]], schema=schema)
        for _ in range(10):
            writer.write_batch(huge)
    body = sink.getvalue().to_pybytes()
    assert len(body) < 1_000_000
    call = Caller(server)
    before = server.memory_bytes()
    async with Witness(server):
        answer = await call("POST", "/$bulk/append", body)
    assert answer.status == 400
    assert server.memory_bytes() - before < 100_000_000


async def test_who_asks_and_does_not_read(server: ServerProcess) -> None:
    """Large answers are not piled up for one who takes none."""
    call = Caller(server)
    rows = append_body(("target", data_message(bytes(100_000))) for _ in range(60))
    assert (await call("POST", "/$bulk/append", rows)).status == 200
    runtime = json.dumps({"entities": ["target"]})
    answer = await call("POST", "/$bulk/runtime", runtime)
    [entity] = json.loads(answer.body)["entities"]
    content = {"path": "target", "generation": entity["generation"]}
    body = json.dumps({**content, "from": 0, "to": 1 << 40}).encode()
    request = (
        b"POST /$bulk/browse HTTP/1.1\r\nHost: bus\r\nContent-Length: %d\r\n"
        b"Authorization: %s\r\n\r\n" % (len(body), call.token().encode())
    ) + body
    before = server.memory_bytes()
    async with (
        Witness(server) as witness,
        await Stranger.dial(server, receive_bytes=32 * 1024) as stranger,
    ):

        async def ask_for_ever() -> None:
            while True:
                stranger.write(request)
                await stranger.drain()

        asking = asyncio.create_task(ask_for_ever())
        await witness.rounds(60)
        assert server.memory_bytes() - before < 60_000_000
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
