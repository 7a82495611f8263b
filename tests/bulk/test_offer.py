"""Which buses offer bulk requests, and to whom."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from twinbus import limits
from twinbus.testing import Bus

from .caller import Answer, Caller, token_of

ALL = ("append", "browse", "lease", "plan", "runtime", "settle")


def test_requests_and_limits_are_told(call: Caller) -> None:
    offer = call.offer()
    assert (offer["server"], offer["version"]) == ("twinbus", 1)
    assert tuple(offer["requests"]) == ALL
    assert offer["namespace"]["name"] == "twinbus"
    assert offer["namespace"]["created_at"] > 0
    assert offer["limits"] == {
        "append_bytes": limits.BULK_APPEND_BYTES,
        "append_rows": limits.BULK_APPEND_ROWS,
        "browse_bytes": limits.BULK_BROWSE_BYTES,
        "entities": limits.BULK_ENTITIES,
        "lease_ms": [limits.READER_LEASE_MS_MIN, limits.READER_LEASE_MS_MAX],
        "numbers": limits.BULK_NUMBERS,
        "plan_bytes": limits.BULK_PLAN_BYTES,
        "plan_messages": limits.BULK_PLAN_MESSAGES,
        "request_bytes": limits.BULK_REQUEST_BYTES,
    }


@pytest.mark.parametrize("target", ["/$bulk", "/$bulk/", "/%24bulk", "/$bulk?x=1"])
def test_the_address_may_be_written_differently(call: Caller, target: str) -> None:
    assert tuple(call.request("GET", target).json["requests"]) == ALL


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_what_is_offered_is_got(call: Caller, method: str) -> None:
    answer = call.request(method, "/$bulk")
    assert answer.refusal == (405, "argument-error")


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_requests_are_posted(call: Caller, name: str, method: str) -> None:
    assert call.request(method, f"/$bulk/{name}").status == 405


def test_an_unknown_request_names_those_that_are_known(call: Caller) -> None:
    answer = call.ask("receive", {})
    assert answer.refusal == (404, "amqp:not-found")
    assert "runtime, lease, plan, browse, settle, append" in answer.error["message"]


def test_a_refusal_can_be_read_by_programs(call: Caller) -> None:
    content = {"path": "nothing", "generation": "g", "from": 0, "to": 1}
    answer = call.ask("browse", content)
    error = answer.error
    assert answer.status == 404
    assert error["condition"] == "amqp:not-found"
    assert (error["entity"], error["retryable"]) == ("nothing", False)
    assert "'nothing' could not be found" in error["message"]


# --- a strict bus -------------------------------------------------------------


@pytest.fixture
def strict() -> Iterator[Caller]:
    with Bus(settings={"strict": True}) as bus:
        caller = Caller(bus.port, token_of(bus))
        yield caller
        caller.close()


def without_tracking(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.body.decode().partition("TrackingId")[0]


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
@pytest.mark.parametrize("name", ["", *(f"/{name}" for name in ALL)])
def test_strict_bus_has_nothing_of_it(strict: Caller, name: str, method: str) -> None:
    """As with any address that is no entity's."""
    for token in (strict.token, ""):
        there = strict.request(method, f"/$bulk{name}", b"", token)
        elsewhere = strict.request(method, f"/$other{name}", b"", token)
        expected = without_tracking(elsewhere)
        told = without_tracking(there)
        assert (told[0], told[1].replace("$bulk", "$other")) == expected
        assert there.status in ((400, 404, 405) if token else (401,))


# --- a bus without pyarrow ----------------------------------------------------

WITHOUT_ARROW = """
import json, sys

class Without:
    'Finds what another finder finds, but for pyarrow.'

    def __init__(self, finder):
        self._finder = finder

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pyarrow":
            return None
        return self._finder.find_spec(name, path, target)

sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]

import http.client
from twinbus.auth import sas
from twinbus.testing import Bus

with Bus() as bus:
    bus.create_queue("orders")
    token = sas.make(
        resource=f"http://localhost:{bus.port}/",
        key_name=bus.key_name,
        key=bus.key,
        expires_at=bus.clock.now() + 60_000,
    )

    def ask(method, target, content):
        connection = http.client.HTTPConnection("127.0.0.1", bus.port)
        connection.request(
            method, target, json.dumps(content), {"authorization": token}
        )
        response = connection.getresponse()
        answer = [response.status, json.loads(response.read())]
        connection.close()
        return answer

    print(json.dumps({
        "offer": ask("GET", "/$bulk", {}),
        "runtime": ask("POST", "/$bulk/runtime", {"entities": ["orders"]}),
        "browse": ask("POST", "/$bulk/browse", {}),
        "append": ask("POST", "/$bulk/append", {}),
    }))
assert "pyarrow" not in sys.modules
"""


def test_a_bus_without_pyarrow_offers_what_needs_none() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_ARROW],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 0, ended.stderr
    answers = json.loads(ended.stdout)
    assert answers["offer"][1]["requests"] == ["lease", "plan", "runtime", "settle"]
    assert answers["runtime"][0] == 200
    for name in ("browse", "append"):
        status, answer = answers[name]
        assert status == 501
        assert f"'{name}' needs pyarrow" in answer["error"]["message"]
        assert "twinbus[spark]" in answer["error"]["message"]
