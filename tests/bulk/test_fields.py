"""Validation of requests: every field, its type and range; errors name the field."""

import json
from typing import Any

import pytest

from twinbus import limits

from .caller import READER, Answer, Caller

JSON_REQUESTS = ("runtime", "lease", "plan", "browse", "settle")
TOO_LARGE = 1 << 63


def complete(call: Caller, name: str, path: str) -> dict[str, Any]:
    """A request that is in order, with every field."""
    generation = call.generation(path)
    entity: dict[str, Any] = {"path": path}
    if name == "runtime":
        return {"entities": [path], "pattern": path}
    if name == "lease":
        return {
            **{"reader": READER, "duration_ms": 60_000, "release": False},
            "entities": [entity],
        }
    if name == "plan":
        return {
            **{"reader": READER, "max_messages": 10, "max_bytes": 10_000},
            **{"split_messages": 5, "aligned": False},
            "entities": [
                {
                    **{"path": path, "generation": generation, "epoch": None},
                    **{"from": {"0": 1}, "to": {"0": 9}},
                    **{"from_time": 0, "to_time": 10**15},
                }
            ],
        }
    if name == "browse":
        return {
            **{"path": path, "generation": generation, "fragment": 0, "from": 1},
            **{"to": 9, "columns": ["body"], "states": ["active"], "max_bytes": 100},
        }
    [epoch] = call.lease(path)
    poison = {"sequence_number": 99, "reason": "why", "description": "how\nand where"}
    return {
        "reader": READER,
        "entities": [
            {
                **{"path": path, "epoch": epoch, "to": {"0": 1}, "defer": [99]},
                **{"complete": [99], "dead_letter": [poison]},
            }
        ],
    }


def changed(content: dict[str, Any], place: str, value: Any) -> dict[str, Any]:
    """The content with another value at `entities.0.path` and the like."""
    copy: dict[str, Any] = json.loads(json.dumps(content))
    target: Any = copy
    *way, last = place.split("/")
    for step in way:
        target = target[int(step)] if isinstance(target, list) else target[step]
    target[last] = value
    return copy


def shown(place: str) -> str:
    """As an error writes a place."""
    name = ""
    for step in place.split("/"):
        name += f"[{step}]" if step.isdigit() else f".{step}" if name else step
    return name


# Of each request: a field, and what it is not.
WRONG: list[tuple[str, str, tuple[Any, ...]]] = [
    ("runtime", "entities", ("orders", {}, 1, [1], [None], [""], ["a\nb"], [["a"]])),
    ("runtime", "pattern", (1, "", ["*"], "a\x00b", "\ud800")),
    ("lease", "reader", (None, "", 5, [], "a\nb", "\ud800", "x\x7f")),
    ("lease", "duration_ms", (None, "60000", 1.5, True)),
    ("lease", "release", (1, "yes", [])),
    ("lease", "entities", ("orders", {}, ["orders"], [1])),
    ("lease", "entities/0/path", (None, "", 1, {}, "\udfff")),
    ("lease", "entities/0/epoch", (1, "", {})),
    ("plan", "reader", (5, "", "a\tb")),
    ("plan", "max_messages", ("1", 1.0, True, [])),
    ("plan", "max_bytes", ("1", False)),
    ("plan", "split_messages", ("1",)),
    ("plan", "aligned", (0, "true")),
    ("plan", "entities", ({}, "x", [None])),
    ("plan", "entities/0/path", (None, 1)),
    ("plan", "entities/0/generation", (None, 1, "")),
    ("plan", "entities/0/epoch", (1, "")),
    ("plan", "entities/0/from", (1, [1], {"x": 1}, {"0": "1"}, {"-1": 1}, {"٣": 1})),
    ("plan", "entities/0/to", ("9", {"": 1}, {"0": None}, {"123456": 1})),
    ("plan", "entities/0/from_time", ("2026-01-01", 1.5)),
    ("plan", "entities/0/to_time", ("now", True)),
    ("browse", "path", (None, "", 7)),
    ("browse", "generation", (None, "")),
    ("browse", "fragment", ("0", 0.0)),
    ("browse", "from", (None, "1")),
    ("browse", "to", (None, "9")),
    ("browse", "columns", ("body", ["nonsense"], [1], [""])),
    ("browse", "states", ("active", ["gone"], [0])),
    ("browse", "max_bytes", ("1", True)),
    ("settle", "reader", (None, "", 1)),
    ("settle", "entities", ("x", [1])),
    ("settle", "entities/0/path", (None, 1)),
    ("settle", "entities/0/epoch", (None, 1, "")),
    ("settle", "entities/0/to", (5, {"0": "5"})),
    ("settle", "entities/0/defer", (5, ["5"], [True], [1.5])),
    ("settle", "entities/0/complete", ({}, [None])),
    ("settle", "entities/0/dead_letter", (5, [5])),
    ("settle", "entities/0/dead_letter/0/sequence_number", (None, "5")),
    ("settle", "entities/0/dead_letter/0/reason", (5, "a\x00b", "\ud800")),
    ("settle", "entities/0/dead_letter/0/description", (5, [], "\udc00")),
]

# And values beyond what is allowed.
BEYOND: list[tuple[str, str, tuple[Any, ...]]] = [
    ("lease", "reader", ("x" * (limits.READER_CHARACTERS + 1),)),
    (
        "lease",
        "duration_ms",
        (0, -1, limits.READER_LEASE_MS_MIN - 1, limits.READER_LEASE_MS_MAX + 1),
    ),
    ("lease", "entities", ([{"path": "x"}] * (limits.BULK_ENTITIES + 1),)),
    ("lease", "entities/0/path", ("x" * 1_000,)),
    ("runtime", "entities", (["x"] * (limits.BULK_ENTITIES + 1),)),
    ("runtime", "pattern", ("x" * 1_000,)),
    ("plan", "max_messages", (0, -1, limits.BULK_PLAN_MESSAGES + 1)),
    ("plan", "max_bytes", (0, limits.BULK_PLAN_BYTES + 1)),
    ("plan", "split_messages", (0, limits.BULK_PLAN_MESSAGES + 1)),
    ("plan", "entities/0/from", ({"0": -1}, {"0": TOO_LARGE}, {"0": 1 << 50})),
    ("plan", "entities/0/to", ({"0": TOO_LARGE}, {"0": 1 << 50})),
    ("plan", "entities/0/from_time", (-1, TOO_LARGE)),
    ("plan", "entities/0/generation", ("x" * 129,)),
    ("browse", "fragment", (-1, 65_536)),
    ("browse", "from", (-1, TOO_LARGE, 1 << 50)),
    ("browse", "to", (-1, TOO_LARGE, 1 << 50)),
    ("browse", "max_bytes", (0, limits.BULK_BROWSE_BYTES + 1)),
    ("settle", "entities/0/to", ({"0": -1}, {"0": 1 << 50})),
    ("settle", "entities/0/defer", ([-1], [TOO_LARGE], [1 << 50])),
    ("settle", "entities/0/complete", ([1 << 50],)),
    ("settle", "entities/0/defer", ([1] * (limits.BULK_NUMBERS + 1),)),
    ("settle", "entities/0/dead_letter/0/sequence_number", (-1, 1 << 50)),
    ("settle", "entities/0/dead_letter/0/reason", ("x" * 5_000,)),
]


def cases(table: list[tuple[str, str, tuple[Any, ...]]]) -> list[Any]:
    return [
        pytest.param(name, place, values, id=f"{name}-{place.replace('/', '.')}")
        for name, place, values in table
    ]


@pytest.mark.parametrize("name", JSON_REQUESTS)
def test_a_request_with_every_field_is_answered(
    call: Caller, queue: str, name: str
) -> None:
    assert call.ask(name, complete(call, name, queue)).status == 200


@pytest.mark.parametrize(("name", "place", "values"), cases(WRONG))
def test_a_value_of_another_kind_is_refused(
    call: Caller, queue: str, name: str, place: str, values: tuple[Any, ...]
) -> None:
    content = complete(call, name, queue)
    for value in values:
        answer = call.ask(name, changed(content, place, value))
        assert answer.refusal == (400, "argument-error"), value
        assert f"'{shown(place)}'" in answer.error["message"]


@pytest.mark.parametrize(("name", "place", "values"), cases(BEYOND))
def test_a_value_beyond_its_range_is_refused(
    call: Caller, queue: str, name: str, place: str, values: tuple[Any, ...]
) -> None:
    content = complete(call, name, queue)
    for value in values:
        answer = call.ask(name, changed(content, place, value))
        assert answer.refusal == (400, "argument-out-of-range"), value
        assert shown(place).rpartition(".")[2] in answer.error["message"]


@pytest.mark.parametrize(
    ("name", "place"),
    [
        *((name, "more") for name in JSON_REQUESTS),
        *((name, "entities/0/more") for name in ("lease", "plan", "settle")),
        ("settle", "entities/0/dead_letter/0/more"),
    ],
)
def test_an_unknown_field_is_refused(
    call: Caller, queue: str, name: str, place: str
) -> None:
    """A typing error must not mean that the default is taken."""
    content = changed(complete(call, name, queue), place, 1)
    answer = call.ask(name, content)
    assert answer.refusal == (400, "argument-error")
    assert f"'{shown(place)}' is not a field" in answer.error["message"]
    assert "there are " in answer.error["message"]


@pytest.mark.parametrize("name", JSON_REQUESTS)
@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"x", b"\xff\xfe\x00", b"{'a': 1}", b'{"a": 1}x'),
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"entities": ' + b"9" * 100_000 + b"}",
        b'{"entities": "\xed\xa0\x80"}',
    ],
    ids=lambda body: repr(body[:14]),
)
def test_what_is_not_json_is_refused(call: Caller, name: str, body: bytes) -> None:
    answer = call.ask(name, body)
    assert answer.refusal == (400, "argument-error")
    said = answer.error["message"]
    assert said.startswith(("The body is not valid JSON", "The body is nested too"))


@pytest.mark.parametrize("name", JSON_REQUESTS)
@pytest.mark.parametrize("body", [b"[]", b"null", b"1", b'"x"', b"true"])
def test_json_that_is_no_object_is_refused(
    call: Caller, name: str, body: bytes
) -> None:
    answer = call.ask(name, body)
    assert answer.refusal == (400, "argument-error")
    assert "JSON object" in answer.error["message"]


def oversized(call: Caller, name: str, size: int, token: str | None = None) -> Answer:
    return call.ask(name, b" " * size, token)


@pytest.mark.parametrize("name", JSON_REQUESTS)
def test_a_body_may_have_a_megabyte(call: Caller, name: str) -> None:
    assert oversized(call, name, limits.BULK_REQUEST_BYTES).status == 400
    answer = oversized(call, name, limits.BULK_REQUEST_BYTES + 1)
    assert answer.status == 413
    assert str(limits.BULK_REQUEST_BYTES).encode() in answer.body


def test_the_body_of_an_append_may_have_eight(call: Caller) -> None:
    assert oversized(call, "append", limits.BULK_APPEND_BYTES).status == 400
    assert oversized(call, "append", limits.BULK_APPEND_BYTES + 1).status == 413


@pytest.mark.parametrize("name", [*JSON_REQUESTS, "append"])
def test_a_stranger_sends_no_large_bodies(call: Caller, name: str) -> None:
    most = limits.ENTITY_REQUEST_BYTES
    for token in ("", "SharedAccessSignature sr=x&sig=x&se=9999999999&skn=x"):
        # It is not told the limit.
        assert oversized(call, name, most, token).status == 401
        assert oversized(call, name, most + 1, token).status == 401


def test_a_fragment_that_is_not_there_is_refused(call: Caller, queue: str) -> None:
    for place in ("entities/0/from", "entities/0/to"):
        content = changed(complete(call, "plan", queue), place, {"1": 5})
        answer = call.ask("plan", content)
        assert answer.refusal == (400, "argument-error")
        assert "fragment 0 only" in answer.error["message"]
    content = changed(complete(call, "browse", queue), "fragment", 1)
    answer = call.ask("browse", content)
    assert answer.refusal == (400, "argument-error")
    assert answer.error["entity"] == queue


@pytest.mark.parametrize("name", ["lease", "plan"])
def test_an_entity_is_named_once(call: Caller, queue: str, name: str) -> None:
    content = complete(call, name, queue)
    [entity] = content["entities"]
    content["entities"] = [entity, {**entity, "path": f"/{queue.upper()}/"}]
    answer = call.ask(name, content)
    assert answer.refusal == (400, "argument-error")
    assert f"names '{queue}' more than once" in answer.error["message"]
    assert call.fragment(queue)["lease"] is None
