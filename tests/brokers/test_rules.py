"""Rules and counts of another broker's entities, over HTTP and AMQP."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from bulk.caller import Answer, Caller

from twinbus.errors import EntityAlreadyExists, MessagingEntityNotFound

from .processes import Brokers, as_json
from .test_bulk import active_count, clients, fill, texts_of

_NAMESPACE = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"


@pytest.fixture
def calls(trio: Brokers) -> Iterator[dict[str, Caller]]:
    """A client of each broker."""
    with clients(trio) as made:
        yield made


async def subscription(trio: Brokers, topic: str) -> str:
    """Of a new topic of the first broker."""
    path = f"{topic}/Subscriptions/s"
    await trio.make("1", "topic", topic)
    await trio.make("1", "subscription", path)
    return path


def _rule_entry(name: str, expression: str) -> bytes:
    return (
        '<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml">'
        f'<RuleDescription xmlns="{_NAMESPACE}" '
        'xmlns:i="http://www.w3.org/2001/XMLSchema-instance">'
        f'<Filter i:type="SqlFilter"><SqlExpression>{expression}</SqlExpression>'
        f"</Filter><Name>{name}</Name></RuleDescription></content></entry>"
    ).encode()


def _put(call: Caller, path: str, name: str, expression: str, etag: str = "") -> Answer:
    target = f"/{path}/rules/{name}?api-version=2021-05"
    body = _rule_entry(name, expression)
    if not etag:
        return call.request("PUT", target, body)
    call._http.request(
        "PUT", target, body, {"authorization": call.token, "if-match": etag}
    )
    response = call._http.getresponse()
    return Answer(response.status, dict(response.getheaders()), response.read())


def _get(call: Caller, path: str) -> Answer:
    return call.request("GET", f"/{path}?api-version=2021-05")


def _rule_names(described: dict[str, Any]) -> list[str]:
    return [rule["name"] for rule in described["rules"]]


def test_rules_are_changed_over_http_at_any_broker(
    trio: Brokers, calls: dict[str, Caller]
) -> None:
    path = asyncio.run(subscription(trio, "http"))
    assert _put(calls["2"], path, "two", "a = 2").status == 201
    assert _put(calls["3"], path, "two", "a = 2").status == 409
    for call in calls.values():
        listed = _get(call, f"{path}/rules").body
        assert b"$Default" in listed and b"a = 2" in listed
        assert b"a = 2" in _get(call, f"{path}/rules/two").body
    assert _put(calls["3"], path, "two", "a = 3", etag="*").status == 200
    for call in calls.values():
        assert b"a = 3" in _get(call, f"{path}/rules/two").body
    target = f"/{path}/rules/two?api-version=2021-05"
    assert calls["2"].request("DELETE", target).status == 200
    assert calls["3"].request("DELETE", target).status == 404
    for call in calls.values():
        assert _get(call, f"{path}/rules/two").status == 404


async def test_rules_are_changed_by_entity_requests_at_any_broker(
    trio: Brokers,
) -> None:
    path = await subscription(trio, "asked")
    described = await trio.ask("1", "get-entity", path=path)
    [given] = described["rules"]
    rule = {**given, "name": "r"}
    text = json.dumps(rule)
    await trio.ask("2", "create-rule", path=path, rule=text)
    with pytest.raises(EntityAlreadyExists):
        await trio.ask("3", "create-rule", path=path, rule=text)
    for name in "123":
        described = await trio.ask(name, "get-entity", path=path)
        assert _rule_names(described) == ["$Default", "r"]
        listed = await trio.ask(name, "list-entities")
        [found] = [one for one in listed if one["path"] == path]
        assert _rule_names(found) == ["$Default", "r"]
        one = await trio.ask(name, "get-entity", path=f"{path}/Rules/r")
        assert one["rule"]["name"] == "r"
    await trio.ask("3", "delete-entity", path=f"{path}/Rules/r")
    with pytest.raises(MessagingEntityNotFound):
        await trio.ask("2", "get-entity", path=f"{path}/Rules/r")
    with pytest.raises(MessagingEntityNotFound):
        await trio.ask("2", "delete-entity", path=f"{path}/Rules/r")


async def test_settings_and_counts_are_those_of_all_brokers(
    trio: Brokers, calls: dict[str, Caller]
) -> None:
    for name in "123":
        await trio.make(name, "queue", f"q{name}")
        fill(calls["1"], f"q{name}", texts_of(int(name)))
    for at, name in enumerate("231"):
        changed = as_json(max_delivery_count=at + 2)
        await trio.ask(name, "update-entity", path=f"q{at + 1}", properties=changed)
    for name in "123":
        listed = {one["path"]: one for one in await trio.ask(name, "list-entities")}
        for at in range(3):
            found = listed[f"q{at + 1}"]
            assert found["counts"]["active"] == at + 1
            assert found["properties"]["max_delivery_count"] == at + 2
        feed = _get(calls[name], "$Resources/queues").body
        for count in range(1, 4):
            assert f"<MessageCount>{count}</MessageCount>".encode() in feed
        assert active_count(calls[name], "q3") == 3
