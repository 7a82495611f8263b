"""Authorization: Listen to read, Send to write."""

from collections.abc import Callable
from typing import Any

import pytest
from wire.message import data_message

from twinbus.testing import Bus

from .caller import READER, Answer, Caller, append_body, token_of
from .sdk import Sdk

Ask = Callable[[Caller, str, str], Answer]


def runtime(call: Caller, path: str, token: str) -> Answer:
    return call.ask("runtime", {"entities": [path]}, token)


def lease(call: Caller, path: str, token: str) -> Answer:
    entities = [{"path": path}]
    content = {"reader": READER, "duration_ms": 60_000, "entities": entities}
    return call.ask("lease", content, token)


def release(call: Caller, path: str, token: str) -> Answer:
    entities = [{"path": path, "epoch": "1"}]
    content = {"reader": READER, "release": True, "entities": entities}
    return call.ask("lease", content, token)


def plan(call: Caller, path: str, token: str) -> Answer:
    entity = {"path": path, "generation": call.generation(path)}
    return call.ask("plan", {"entities": [entity]}, token)


def browse(call: Caller, path: str, token: str) -> Answer:
    content = {"path": path, "generation": call.generation(path), "from": 0, "to": 9}
    return call.ask("browse", content, token)


def settle(call: Caller, path: str, token: str) -> Answer:
    [epoch] = call.lease(path)
    entity = {"path": path, "epoch": epoch, "to": {"0": 1}}
    return call.ask("settle", {"reader": READER, "entities": [entity]}, token)


def append(call: Caller, path: str, token: str) -> Answer:
    return call.ask("append", append_body([(path, data_message("x"))]), token)


READS: tuple[Ask, ...] = (runtime, lease, release, plan, browse, settle)
ALL: tuple[Ask, ...] = (*READS, append)


@pytest.fixture
def other(bus: Bus, queue: str) -> str:
    """An entity whose name begins with that of the queue."""
    bus.create_queue(f"{queue}-2")
    return f"{queue}-2"


@pytest.mark.parametrize("ask", READS)
@pytest.mark.parametrize("claims", [["Listen"], ["Send", "Listen"], ["Manage"], []])
def test_listen_reads(
    bus: Bus, call: Caller, queue: str, ask: Ask, claims: list[str]
) -> None:
    assert ask(call, queue, token_of(bus, claims=claims)).status == 200


@pytest.mark.parametrize("claims", [["Send"], ["Send", "Listen"], ["Manage"], []])
def test_send_appends(bus: Bus, call: Caller, queue: str, claims: list[str]) -> None:
    answer = append(call, queue, token_of(bus, claims=claims))
    assert answer.json == {"applied": 1, "known": [], "refused": []}


@pytest.mark.parametrize("ask", ALL)
def test_the_other_claim_is_not_enough(
    bus: Bus, call: Caller, queue: str, sdk: Sdk, ask: Ask
) -> None:
    claim, needed = ("Listen", "Send") if ask is append else ("Send", "Listen")
    answer = ask(call, queue, token_of(bus, claims=[claim]))
    assert answer.refusal == (401, "amqp:unauthorized-access")
    assert f"'{needed}' claim(s) are required" in answer.error["message"]
    assert sdk.texts(queue) == []


@pytest.mark.parametrize("ask", ALL)
def test_a_token_for_the_entity_alone_will_do(
    bus: Bus, call: Caller, queue: str, ask: Ask
) -> None:
    assert ask(call, queue, token_of(bus, resource=queue)).status == 200


@pytest.mark.parametrize("ask", ALL)
def test_a_token_for_another_entity_will_not(
    bus: Bus, call: Caller, queue: str, other: str, ask: Ask
) -> None:
    for own, foreign in ((queue, other), (other, queue)):
        answer = ask(call, foreign, token_of(bus, resource=own))
        assert answer.refusal == (401, "amqp:unauthorized-access")
        assert f"The token is for '{own}'" in answer.error["message"]


@pytest.mark.parametrize("ask", ALL)
def test_the_key_of_an_entity_gives_no_other(
    bus: Bus, call: Caller, queue: str, other: str, ask: Ask
) -> None:
    """Signed for the whole namespace, as clients do."""
    rule = {"key_name": "own", "primary_key": "own-key", "rights": ("Send", "Listen")}
    bus.create_queue("owned", authorization_rules=[rule])
    token = token_of(bus, key="own-key").replace(f"skn={bus.key_name}", "skn=own")
    assert ask(call, "owned", token).status == 200
    assert ask(call, other, token).refusal == (401, "auth-failed")


@pytest.mark.parametrize("ask", ALL)
def test_an_expired_token_is_none(bus: Bus, call: Caller, queue: str, ask: Ask) -> None:
    token = token_of(bus, seconds=60)
    assert ask(call, queue, token).status == 200
    bus.advance(61)
    answer = ask(call, queue, token)
    assert answer.refusal == (401, "auth-failed")
    assert answer.error["message"].startswith("ExpiredToken: ")


@pytest.mark.parametrize("ask", ALL)
@pytest.mark.parametrize(
    ("token", "word"),
    [
        ("", "MissingToken"),
        ("Bearer x", "MalformedToken"),
        ("SharedAccessSignature sr=x&sig=x&se=9999999999&skn=x", "InvalidSignature"),
        ("SharedAccessSignature sr=x&sig=x&se=soon&skn=x", "se"),
    ],
)
def test_what_is_no_token_is_told(
    call: Caller, queue: str, ask: Ask, token: str, word: str
) -> None:
    answer = ask(call, queue, token)
    assert answer.refusal == (401, "auth-failed")
    assert word in answer.error["message"]


def test_of_several_entities_every_one_is_asked_for(
    bus: Bus, call: Caller, queue: str, other: str
) -> None:
    """Nothing is done to the others then."""
    token = token_of(bus, resource=queue)
    content: dict[str, Any] = {"reader": READER, "duration_ms": 60_000}
    content["entities"] = [{"path": queue}, {"path": other}]
    assert call.ask("lease", content, token).status == 401
    assert call.fragment(queue)["lease"] is None
    body = append_body([(queue, data_message("x")), (other, data_message("x"))])
    assert call.ask("append", body, token).status == 401
    assert call.fragment(queue)["active_count"] == 0


def test_a_pattern_finds_what_the_token_may_read(
    bus: Bus, call: Caller, queue: str, other: str
) -> None:
    def found(token: str) -> list[str]:
        answer = call.ask("runtime", {"pattern": "*"}, token)
        assert answer.status == 200, answer.body
        return [entity["path"] for entity in answer.json["entities"]]

    assert found(token_of(bus, claims=["Listen"])) == [queue, other]
    assert found(token_of(bus, resource=other)) == [other]
    assert found(token_of(bus, claims=["Send"])) == []


def test_the_token_of_a_queue_reads_its_dead_letters(
    bus: Bus, call: Caller, queue: str
) -> None:
    token = token_of(bus, resource=queue)
    assert runtime(call, f"{queue}/$DeadLetterQueue", token).status == 200
    only_dead = token_of(bus, resource=f"{queue}/$DeadLetterQueue")
    assert runtime(call, queue, only_dead).status == 401


def test_any_token_learns_what_is_offered(bus: Bus, call: Caller, queue: str) -> None:
    for token in (
        token_of(bus, claims=["Send"]),
        token_of(bus, resource=queue),
        token_of(bus, resource="nothing"),
    ):
        assert call.request("GET", "/$bulk", token=token).status == 200
    for token in ("", token_of(bus, key="wrong"), token_of(bus, seconds=-1)):
        answer = call.request("GET", "/$bulk", token=token)
        assert answer.refusal == (401, "auth-failed")
