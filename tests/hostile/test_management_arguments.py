"""Management requests with wrong arguments: the error names the argument.

In each operation one argument after the other is left out, has another type, or is far
too large, on each kind of entity, inside and outside of transactions. The answer is a
success or an error of the table; a status 500 would be a bug.
"""

import asyncio
import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from crash import messages
from crash.server_process import ServerProcess
from hypothesis import given, settings
from hypothesis import strategies as st

from hostile.witness import Witness
from twinbus.amqp.messaging import AmqpValue, Data, Message
from twinbus.amqp.types import (
    AmqpArray,
    Decimal32,
    Described,
    Float32,
    Int,
    Symbol,
    Timestamp,
    UInt,
    ULong,
)
from twinbus.client import ClientConnection
from twinbus.errors import BY_CONDITION

_LONG, _UUID = 0x81, 0x98
ENTITIES = ("target", "news/Subscriptions/all")
SESSION = "which session is decided by the test"

RULE = {"sql-filter": {"expression": "a = @p", "parameters": {"@p": 1}}}

# A request of each operation that makes sense; answers may still be refusals.
REQUESTS: dict[str, dict[str, Any]] = {
    "peek-message": {
        "from-sequence-number": 0,
        "message-count": Int(1),
        "session-id": SESSION,
    },
    "receive-by-sequence-number": {
        "sequence-numbers": AmqpArray(_LONG, [1]),
        "receiver-settle-mode": UInt(1),
        "session-id": SESSION,
    },
    "schedule-message": {"messages": [{"message": messages.named("x")}]},
    "cancel-scheduled-message": {"sequence-numbers": AmqpArray(_LONG, [1])},
    "batch-delete-messages": {
        "message-count": Int(1),
        "enqueued-time-utc": Timestamp(0),
        "session-id": SESSION,
    },
    "renew-lock": {
        "lock-tokens": AmqpArray(_UUID, [UUID(int=1)]),
        "session-id": SESSION,
    },
    "update-disposition": {
        "disposition-status": "abandoned",
        "lock-tokens": AmqpArray(_UUID, [UUID(int=1)]),
        "properties-to-modify": {"a": 1},
        "deadletter-reason": "why",
        "deadletter-description": "because",
        "session-id": SESSION,
    },
    "renew-session-lock": {"session-id": SESSION},
    "get-session-state": {"session-id": SESSION},
    "set-session-state": {"session-id": SESSION, "session-state": b"state"},
    "get-message-sessions": {
        "last-updated-time": Timestamp(0),
        "skip": Int(0),
        "top": Int(1),
    },
    "add-rule": {"rule-name": "r", "rule-description": RULE},
    "remove-rule": {"rule-name": "r"},
    "enumerate-rules": {"top": Int(1), "skip": Int(0)},
}


def nested(depth: int) -> object:
    value: object = []
    for _ in range(depth):
        value = [value]
    return value


WRONG: tuple[object, ...] = (
    *(None, True, -1, 1 << 62, -(1 << 63), ULong((1 << 64) - 1), UInt(0), Int(-1)),
    *(1.5, float("nan"), float("inf"), Float32(1.0), Decimal32(b"\x22\x50\x00\x00")),
    *("", "text", "\0", "x" * 70_000, "\U0001f600", Symbol("symbol"), b"", b"\xff"),
    *(UUID(int=0), Timestamp(1 << 62), Timestamp(-(1 << 63)), nested(20)),
    *([], [[]], [{}], {}, {"": None}, {"message": b"\x00"}, [{"message": b"\x00"}]),
    *(AmqpArray(_LONG, []), AmqpArray(_LONG, [-1]), AmqpArray(_UUID, [UUID(int=0)])),
    *(AmqpArray(_LONG, [1] * 5_000), [None], [1.5], [b"x" * 16], ["x"] * 5_000),
    *(Described(ULong(0x24), []), Described("a", Described("b", None))),
    *({"sql-filter": None}, {"sql-filter": {"expression": 1}}, {"true-filter": 5}),
    *({"sql-filter": {"expression": "a=1", "parameters": [1]}},),
    *({"sql-filter": {"expression": "a=@p", "parameters": {"@p": [1]}}},),
    *({"correlation-filter": {"label": 1}}, {"correlation-filter": {}}),
    *({"correlation-filter": {"properties": {"a": {}}}},),
    *({"correlation-filter": {"properties": {"a": Timestamp(1 << 62)}}},),
    *({"true-filter": {}, "sql-rule-action": "SET a = 1"},),
)


def mutations(operation: str, session_id: str = "") -> Iterator[dict[str, Any]]:
    """The request with one argument wrong at a time."""
    valid = dict(REQUESTS[operation])
    if "session-id" in valid:
        valid["session-id"] = session_id
        if not session_id:
            del valid["session-id"]
    for name in valid:
        yield {key: value for key, value in valid.items() if key != name}
        for value in WRONG:
            yield {**valid, name: value}


async def ask(
    connection: ClientConnection,
    entity: str,
    operation: str,
    body: object,
    state: bytes | None = None,
) -> tuple[int, str]:
    """Status and condition of the answer, which has to be one of the documented."""
    properties = {"operation": operation}
    section = body if isinstance(body, Data) else AmqpValue(body)
    request = Message(application_properties=properties, body=section)
    address = f"{entity}/$management".lstrip("/")
    response = await connection.request(address, request, state=state)
    answer: dict[Any, Any] = response.application_properties or {}
    status, condition = answer["statusCode"], answer.get("errorCondition", "")
    told = f"{operation} {body!r:.300} of {entity}: {answer}"
    if condition:
        assert BY_CONDITION[condition].http_status == status, told
        assert "TrackingId:" in answer["statusDescription"], told
    else:
        assert status in (200, 204), told
    assert status != 500, told
    return status, condition


async def undo(
    connection: ClientConnection, entity: str, operation: str, body: dict[str, Any]
) -> None:
    """Take back what was made after all, so that the next one is not the second."""
    if operation.endswith(":add-rule"):
        body = {"rule-name": body["rule-name"]}
        await ask(connection, entity, "com.microsoft:remove-rule", body)
    elif operation.endswith(":create-rule"):
        name = json.loads(body["rule"])["name"]
        body = {"path": f"{body['path']}/Rules/{name}"}
        await ask(connection, entity, "twinbus:delete-entity", body)
    elif ":create-" in operation:
        await ask(connection, entity, "twinbus:delete-entity", {"path": body["path"]})


@pytest.mark.parametrize("operation", REQUESTS)
async def test_wrong_arguments(server: ServerProcess, operation: str) -> None:
    name = f"com.microsoft:{operation}"
    async with Witness(server), await server.connect() as connection:
        for entity in ENTITIES:
            for body in mutations(operation):
                if (await ask(connection, entity, name, body))[0] == 200:
                    await undo(connection, entity, name, body)


@pytest.mark.parametrize("operation", REQUESTS)
async def test_wrong_arguments_for_one_who_holds_the_session(
    server: ServerProcess, operation: str
) -> None:
    session_id = f"held for {operation}"
    async with Witness(server), await server.connect() as connection:
        await connection.receiver(
            "sessions", source_filter={"com.microsoft:session-filter": session_id}
        )
        for body in mutations(operation, session_id):
            await ask(connection, "sessions", f"com.microsoft:{operation}", body)


@pytest.mark.parametrize("operation", REQUESTS)
async def test_wrong_arguments_end_only_their_own_transaction(
    server: ServerProcess, operation: str
) -> None:
    async with Witness(server), await server.connect() as connection:
        controller = await connection.controller()
        entity = "news/Subscriptions/all" if "rule" in operation else "target"
        for body in mutations(operation):
            transaction = await controller.declare()
            state = transaction.state()
            await ask(connection, entity, f"com.microsoft:{operation}", body, state)
            await transaction.roll_back()
        await (await controller.declare()).commit()


@pytest.mark.parametrize("operation", REQUESTS)
async def test_bodies_that_are_no_maps(server: ServerProcess, operation: str) -> None:
    async with Witness(server), await server.connect() as connection:
        for body in (*WRONG, Data((b"x",)), Data(())):
            if isinstance(body, dict):
                continue
            name = f"com.microsoft:{operation}"
            status, condition = await ask(connection, "sessions", name, body)
            assert (status, condition) in (
                (400, "com.microsoft:argument-error"),
                (501, "amqp:not-implemented"),
            )


async def test_operations_that_there_are_not(server: ServerProcess) -> None:
    names = (
        "",
        "com.microsoft:",
        "peek",
        "\0",
        "x" * 60_000,
        "READ",
        "com.microsoft:x",
    )
    async with Witness(server), await server.connect() as connection:
        for operation in names:
            status, condition = await ask(connection, "target", operation, {})
            assert (status, condition) == (501, "amqp:not-implemented")


NAMESPACE_REQUESTS: dict[str, dict[str, str]] = {
    "create-queue": {"path": "fuzzed", "properties": "{}"},
    "create-topic": {"path": "fuzzed", "properties": "{}"},
    "create-subscription": {"path": "news/Subscriptions/f", "properties": "{}"},
    "create-rule": {
        "path": "news/Subscriptions/all",
        "rule": json.dumps({"name": "r", "filter": {"kind": "true"}}),
    },
    "update-entity": {"path": "target", "properties": "{}"},
    "get-entity": {"path": "target"},
    "delete-entity": {"path": "nothing"},
}

JSON_VALUES: tuple[object, ...] = (
    *(None, True, 0, -1, 10**300, 1.5, float("nan"), "", "text", "\ud800", "\0"),
    *([], [1], ["\ud800"], {}, {"a": []}, {"\ud800": ["string", "x"]}, [[["x"]]]),
)
PROPERTIES = (
    *("lock_duration_ms", "max_delivery_count", "requires_session", "user_metadata"),
    *("forward_to", "authorization_rules", "status", "unknown", "\ud800"),
)


def json_mutations(name: str) -> Iterator[str]:
    """Texts that are no description or no rule."""
    yield from ("[" * 30_000, '{"a":' * 10_000, "nul", "{}x", "1" * 5_000, "NaN")
    for value in JSON_VALUES:
        yield json.dumps(value)
        if name == "properties":
            yield from (json.dumps({key: value}) for key in PROPERTIES)
            key = {"key_name": value, "primary_key": value, "rights": value}
            yield json.dumps({"authorization_rules": [key]})
            continue
        sql = {"kind": "sql", "text": "a=1", "parameters": {}}
        correlation = {"kind": "correlation", "fields": {}, "properties": {}}
        for filter in (
            value,
            *({**sql, key: value} for key in sql),
            *({**correlation, key: value} for key in correlation),
            {**correlation, "fields": {"label": value}},
            {**correlation, "properties": {"a": value}},
            {**correlation, "properties": {"a": ["string", value]}},
        ):
            yield json.dumps({"name": "r", "filter": filter})
        for action in (value, {"text": value, "parameters": {}}):
            filter = {"kind": "true"}
            yield json.dumps({"name": "r", "filter": filter, "action": action})
        yield json.dumps({"name": value, "filter": {"kind": "true"}})


@pytest.mark.parametrize("operation", NAMESPACE_REQUESTS)
async def test_wrong_arguments_to_the_namespace(
    server: ServerProcess, operation: str
) -> None:
    valid: dict[str, Any] = NAMESPACE_REQUESTS[operation]
    full_name = f"twinbus:{operation}"
    async with Witness(server), await server.connect() as connection:
        for name in valid:
            await ask(connection, "", full_name, {})
            for value in (*WRONG, *(json_mutations(name) if name != "path" else ())):
                if isinstance(value, str) and len(value) > 60_000:
                    continue  # refused for its size before anybody reads it
                body = {**valid, name: value}
                if (await ask(connection, "", full_name, body))[0] == 200:
                    await undo(connection, "", full_name, body)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=20)
    | st.uuids(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner)
    ),
    max_leaves=5,
)
ARGUMENTS = sorted({name for request in REQUESTS.values() for name in request})


@given(
    requests=st.lists(
        st.tuples(
            st.sampled_from((*ENTITIES, "sessions", "target/$DeadLetterQueue")),
            st.sampled_from(sorted(REQUESTS)),
            st.dictionaries(st.sampled_from(ARGUMENTS), VALUES, max_size=4),
        ),
        min_size=10,
        max_size=30,
    )
)
@settings(max_examples=20)
def test_any_arguments(
    server: ServerProcess, requests: list[tuple[str, str, dict[str, Any]]]
) -> None:
    async def ask_all() -> None:
        async with await server.connect() as connection:
            for entity, operation, body in requests:
                await ask(connection, entity, f"com.microsoft:{operation}", body)

    asyncio.run(ask_all())
