"""Who may do what over HTTP."""

from collections.abc import Iterator
from typing import Any

import pytest
from bulk.caller import token_of

from twinbus.auth import sas
from twinbus.testing import Bus

from .caller import Caller
from .test_long_poll import waiting_count

TOKEN = "00000000-0000-0000-0000-000000000000"
SEND = ("POST", "/orders/messages")
RECEIVE = (
    ("POST", "/orders/messages/head?timeout=30"),
    ("DELETE", "/orders/messages/head?timeout=30"),
    ("POST", f"/orders/messages/1/{TOKEN}"),
    ("PUT", f"/orders/messages/1/{TOKEN}"),
    ("DELETE", f"/orders/messages/1/{TOKEN}"),
)


@pytest.fixture
def callers(bus: Bus) -> Iterator[Any]:
    made: list[Caller] = []

    def make(token: str) -> Caller:
        made.append(Caller(bus.port, token))
        return made[-1]

    yield make
    for caller in made:
        caller.close()


def own_key(bus: Bus, scope: str, key: str = "own-key") -> str:
    """A token of a rule of one entity."""
    return sas.make(
        resource=f"http://localhost:{bus.port}/{scope}",
        key_name="own",
        key=key,
        expires_at=bus.clock.now() + 60_000,
    )


def test_listen_key_cannot_send(bus: Bus, callers: Any, queue: str) -> None:
    listener = callers(token_of(bus, claims=["Listen"]))
    answer = listener(*SEND, b"x")
    assert answer.status == 401
    assert "'Send' claim(s) are required" in answer.detail
    for method, target in RECEIVE[2:]:
        assert listener(method, target).status == 404
    assert listener("POST", "/orders/messages/head?timeout=0").status == 204


def test_send_key_cannot_receive(bus: Bus, callers: Any, queue: str) -> None:
    sender = callers(token_of(bus, claims=["Send"]))
    assert sender(*SEND, b"x").status == 201
    for method, target in RECEIVE:
        answer = sender(method, target)
        assert answer.status == 401
        assert "'Listen' claim(s) are required" in answer.detail


def test_key_of_an_entity_opens_no_other(bus: Bus, callers: Any) -> None:
    rules = [{"key_name": "own", "primary_key": "own-key", "rights": ["Send"]}]
    bus.create_queue("orders", authorization_rules=rules)
    for name in ("other", "orders/below", "orders2"):
        bus.create_queue(name)
    assert callers(own_key(bus, "orders"))(*SEND, b"x").status == 201
    assert callers(own_key(bus, ""))(*SEND, b"x").status == 201
    for scope in ("", "other", "orders"):
        caller = callers(own_key(bus, scope))
        for name in ("other", "orders/below", "orders2", "nothing"):
            assert caller("POST", f"/{name}/messages", b"x").status == 401
            assert caller("POST", f"/{name}/messages/head").status == 401
    assert callers(own_key(bus, "orders", "wrong"))(*SEND).status == 401


def test_token_for_an_entity_opens_no_other(bus: Bus, callers: Any, queue: str) -> None:
    bus.create_queue("other")
    caller = callers(token_of(bus, resource="orders"))
    assert caller(*SEND, b"x").status == 201
    assert caller("POST", "/other/messages", b"x").status == 401


@pytest.mark.parametrize(
    "resource", ["orders/messages", "Orders/Messages/", "orders/messages/head"]
)
def test_token_may_be_for_the_path_of_the_request(
    bus: Bus, callers: Any, queue: str, resource: str
) -> None:
    """As in the service, where it is enough that the token is for a path above."""
    bus.create_queue("other")
    caller = callers(token_of(bus, resource=resource))
    assert caller("POST", "/orders/messages/head?timeout=0").status == 204
    is_above = "head" not in resource
    assert caller(*SEND, b"x").status == (201 if is_above else 401)
    assert caller("POST", "/other/messages", b"x").status == 401


@pytest.mark.parametrize("what", [SEND, *RECEIVE])
@pytest.mark.parametrize("entity", ["orders", "nothing"])
def test_stranger_gets_nowhere(
    bus: Bus, callers: Any, queue: str, what: tuple[str, str], entity: str
) -> None:
    method, target = what[0], what[1].replace("orders", entity)
    tokens = {
        "MissingToken": "",
        "MalformedToken": "Bearer x",
        "InvalidSignature": token_of(bus, key="wrong"),
        "ExpiredToken": token_of(bus, seconds=-1),
    }
    for said, token in tokens.items():
        answer = callers(token)(method, target, b"x")
        assert answer.status == 401
        assert said in answer.detail
    assert waiting_count(bus) == 0


def test_entity_is_not_told_to_those_without_a_claim(
    bus: Bus, callers: Any, queue: str
) -> None:
    sender = callers(token_of(bus, claims=["Send"]))
    there = sender("POST", "/orders/messages/head").detail
    away = sender("POST", "/away/messages/head").detail
    assert (
        there.split("TrackingId")[0]
        == away.replace("away", "orders").split("TrackingId")[0]
    )
