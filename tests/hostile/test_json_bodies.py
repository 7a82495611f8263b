"""JSON of clients with Manage, at every door that reads it: a refusal, never a fault of
the server."""

import json
from collections.abc import Iterator

import pytest
from http_messaging.caller import Caller

from twinbus.testing import Bus

BODIES = {
    "nothing": b"",
    "half": b'{"effect": ',
    "deep": b"[" * 60_000,
    "deep objects": b'{"a":' * 10_000,
    "long number": b'{"name": ' + b"9" * 20_000 + b"}",
    "not UTF-8": b"\xff\xfe",
    "half a character": b'{"name": "\xed\xa0\x80"}',
    "not an object": b"[1]",
}


@pytest.fixture(scope="module")
def caller() -> Iterator[Caller]:
    with Bus(settings={"allow_faults": True}) as bus:
        made = Caller.of(bus)
        yield made
        made.close()


@pytest.mark.parametrize("path", ["/$faults", "/$namespaces", "/$bulk/lease"])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_body_that_is_not_as_expected_is_refused(
    caller: Caller, path: str, body: bytes
) -> None:
    answer = caller("POST", path, body)
    assert answer.status == 400, answer
    error = json.loads(answer.body)["error"]
    assert error["message"].startswith("The ")
    assert not error["retryable"]
