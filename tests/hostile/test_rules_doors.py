"""Malicious rules over AMQP management and HTTP, beside a healthy client.

How the library handles such texts is in `test_rule_texts.py`. Here the error must
arrive as documented, not affect other clients, and leave the subscription unchanged.
"""

from collections.abc import Callable
from typing import Any
from xml.sax.saxutils import escape

import pytest
from crash import messages
from crash.server_process import ServerProcess
from unit.entities.world import World

from hostile.caller import Caller, entry
from hostile.test_rule_texts import DEEP, LONG
from hostile.witness import Witness
from twinbus.amqp.messaging import (
    AmqpValue,
    Data,
    Message,
    Properties,
    encode_message,
)
from twinbus.client import ClientConnection, NotAccepted, RequestFailed
from twinbus.errors import QuotaExceeded
from twinbus.limits import (
    ACTION_STATEMENTS,
    CORRELATION_RULES_PER_TOPIC,
    FILTER_CHARACTERS,
    SQL_RULES_PER_TOPIC,
)
from twinbus.rules.filters import Filter
from twinbus.rules.rule import Rule
from twinbus.rules.sql.rule_checks import correlation_filter, sql_filter

SUBSCRIPTION = "news/Subscriptions/all"

REFUSED = {
    **{f"deep-{number}": text for number, text in enumerate(DEEP)},
    "too-long": "a = 1" + " " * (FILTER_CHARACTERS - 4),
    "too-long-literal": f"a = '{'x' * FILTER_CHARACTERS}'",
    "far-too-long": "a" * 40_000,
    "huge-number": f"a = {'9' * 400}",
    "unclosed": "a = '",
    "empty": "",
    "blank": " \t\n",
    "query": "SELECT a FROM b",
    "second-statement": "a = 1; DROP TABLE messages",
    "emoji": "\U0001f600 = 1",
    "right-to-left": "\u202ea = 1",
    "no-parameter": "a = @missing",
    "no-function": "sleep(10) = 1",
    "action": "SET a = 1",
}
TAKEN = {
    **{f"long-{number}": text for number, text in enumerate(LONG)},
    "longest": "a = 1" + " " * (FILTER_CHARACTERS - 5),
    "exploding": f"a LIKE '{'%a' * 400}b'",
    "emoji": "[\U0001f600] = '\U0001f600'",
}


def sql_xml(text: str, action: str = "") -> str:
    described = f'<Filter i:type="SqlFilter"><SqlExpression>{escape(text)}'
    described += "</SqlExpression></Filter>"
    if action:
        described += f'<Action i:type="SqlRuleAction"><SqlExpression>{escape(action)}'
        described += "</SqlExpression></Action>"
    return entry("Rule", described)


async def add_rule(
    connection: ClientConnection, name: str, description: dict[str, Any]
) -> None:
    body = {"rule-name": name, "rule-description": description}
    await messages.manage(connection, SUBSCRIPTION, "add-rule", body)


async def rule_names(connection: ClientConnection) -> list[str]:
    body = {"top": 100, "skip": 0}
    answer = await messages.manage(connection, SUBSCRIPTION, "enumerate-rules", body)
    return [entry["rule-description"].value[2] for entry in answer.get("rules", [])]


@pytest.mark.parametrize("name", REFUSED)
async def test_hostile_filters_by_amqp(server: ServerProcess, name: str) -> None:
    description = {"sql-filter": {"expression": REFUSED[name]}}
    async with Witness(server), await server.connect() as connection:
        with pytest.raises(RequestFailed) as refusal:
            await add_rule(connection, name, description)
        assert refusal.value.status == 400
        assert refusal.value.description == "com.microsoft:argument-error"
        assert name not in await rule_names(connection)


@pytest.mark.parametrize("name", REFUSED)
async def test_hostile_filters_by_http(server: ServerProcess, name: str) -> None:
    call = Caller(server)
    async with Witness(server):
        for target, body in (
            (f"/{SUBSCRIPTION}/rules/{name}", sql_xml(REFUSED[name])),
            ("/news/subscriptions/hostile", with_default_rule(REFUSED[name])),
        ):
            answer = await call("PUT", target, body)
            assert (answer.status, answer.detail[:14]) == (400, "SubCode=40000.")
            assert len(answer.detail) < 1_000
            assert (await call("GET", target)).status == 404


def with_default_rule(text: str) -> str:
    """A subscription that brings this filter with it."""
    filter = f'<Filter i:type="SqlFilter"><SqlExpression>{escape(text)}'
    filter += "</SqlExpression></Filter>"
    rule = f"<DefaultRuleDescription>{filter}<Name>r</Name></DefaultRuleDescription>"
    return entry("Subscription", rule)


@pytest.mark.parametrize("name", TAKEN)
async def test_nasty_filters_that_are_filters(server: ServerProcess, name: str) -> None:
    """They are taken by both doors, read back, and asked about a nasty message."""
    call = Caller(server)
    target = f"/{SUBSCRIPTION}/rules/by-http"
    nasty = encode_message(
        Message(
            properties=Properties(message_id="nasty"),
            application_properties={"a": "a" * 60_000},
            body=Data((b"",)),
        )
    )
    async with Witness(server), await server.connect() as connection:
        description = {"sql-filter": {"expression": TAKEN[name]}}
        await add_rule(connection, "by-amqp", description)
        assert (await call("PUT", target, sql_xml(TAKEN[name]))).status == 201
        sender = await connection.sender("news")
        for _ in range(5):
            await sender.send(nasty)
        assert (await call("DELETE", target)).status == 200
        body = {"rule-name": "by-amqp"}
        await messages.manage(connection, SUBSCRIPTION, "remove-rule", body)


@pytest.mark.parametrize(
    "action",
    [
        "SET a = 1;" * (ACTION_STATEMENTS + 1),
        "SET a = 1" + " " * FILTER_CHARACTERS,
        "a = 1",
        "SET a",
        "SET sys.SequenceNumber = 1",
        "REMOVE 1",
        "SET a = " + "- " * 400 + "b",
        "SET a = @missing",
    ],
    ids=range(8),
)
async def test_hostile_actions(server: ServerProcess, action: str) -> None:
    call = Caller(server)
    async with Witness(server), await server.connect() as connection:
        with pytest.raises(RequestFailed) as refusal:
            sql = {"expression": action}
            await add_rule(connection, "x", {"true-filter": {}, "sql-rule-action": sql})
        assert refusal.value.status == 400
        answer = await call("PUT", f"/{SUBSCRIPTION}/rules/x", sql_xml("1=1", action))
        assert (answer.status, answer.detail[:14]) == (400, "SubCode=40000.")


async def test_actions_that_grow_messages(server: ServerProcess) -> None:
    """A message that doubles with each statement ends at the limit of messages, and
    its sender is told nothing of the rules of others."""
    call = Caller(server)
    target = "/news/subscriptions/growing"
    async with Witness(server), await server.connect() as connection:
        assert (await call("PUT", target, entry("Subscription"))).status == 201
        rule = sql_xml("1=1", "SET a = a + a;" * ACTION_STATEMENTS)
        assert (await call("PUT", f"{target}/rules/g", rule)).status == 201
        message = Message(
            properties=Properties(message_id="growing"),
            application_properties={"a": "x" * 1_000},
            body=Data((b"",)),
        )
        sender = await connection.sender("news")
        await sender.send(encode_message(message))
        dead = await messages.peek_all(
            connection, "news/Subscriptions/growing/$DeadLetterQueue"
        )
        assert len(dead) == 1
        assert (await call("DELETE", target)).status == 200


@pytest.mark.parametrize(
    "values",
    [
        '<Value i:type="d6p1:int">x</Value>',
        '<Value i:type="d6p1:int">99999999999</Value>',
        '<Value i:type="d6p1:double">1e</Value>',
        '<Value i:type="d6p1:dateTime">9999-99-99T00:00:00Z</Value>',
        '<Value i:type="d6p1:dateTime">0001-01-01T00:00:00+23:59</Value>x',
        '<Value i:type="d6p1:duration">P1Y</Value>',
        '<Value i:type="d6p1:guid">g</Value>',
        '<Value i:type="d6p1:base64Binary">?</Value>',
        '<Value i:type="d6p1:unknown">x</Value>',
        f"<Value>{'x' * 2_000}</Value>",
        "<NoValue/>",
        "",
    ],
    ids=range(12),
)
async def test_values_that_no_rule_has(server: ServerProcess, values: str) -> None:
    call = Caller(server)
    schema = 'xmlns:d6p1="http://www.w3.org/2001/XMLSchema"'
    pair = f"<KeyValueOfstringanyType {schema}><Key>k</Key>{values}"
    pair += "</KeyValueOfstringanyType>"
    body = entry(
        "Rule",
        f'<Filter i:type="CorrelationFilter"><Properties>{pair}</Properties></Filter>',
    )
    async with Witness(server):
        answer = await call("PUT", f"/{SUBSCRIPTION}/rules/valued", body)
        if "+23:59" in values:
            assert answer.status in (201, 400)
            return
        assert (answer.status, answer.detail[:14]) == (400, "SubCode=40000.")


# --- how many -------------------------------------------------------------------

LIMITED = ("--max-sql-rules-per-topic", "5", "--max-correlation-rules-per-topic", "3")


@pytest.mark.parametrize(
    ("kind", "limit", "noun"),
    [("sql-filter", 5, "sql rules"), ("correlation-filter", 3, "correlation rules")],
)
async def test_one_rule_too_many(
    make_server: Callable[..., ServerProcess], kind: str, limit: int, noun: str
) -> None:
    """Counted over all subscriptions of a topic, by both doors."""
    server = make_server(*LIMITED)
    call = Caller(server)
    filters: dict[str, dict[str, Any]] = {
        "sql-filter": {"expression": "a = 1"},
        "correlation-filter": {"label": "x"},
    }
    description = {kind: filters[kind]}
    body = sql_xml("a = 1")
    if kind == "correlation-filter":
        filter = '<Filter i:type="CorrelationFilter"><Label>x</Label></Filter>'
        body = entry("Rule", filter)
    async with Witness(server), await server.connect() as connection:
        other = "/news/subscriptions/other"
        assert (await call("PUT", other, entry("Subscription"))).status == 201
        assert (await call("PUT", f"{other}/rules/first", body)).status == 201
        for number in range(limit - 1):
            await add_rule(connection, f"rule-{number}", description)
        with pytest.raises(RequestFailed) as refusal:
            await add_rule(connection, "too-many", description)
        assert refusal.value.status == 403
        assert refusal.value.description == "amqp:resource-limit-exceeded"
        answer = await call("PUT", f"{other}/rules/too-many", body)
        assert (answer.status, answer.detail[:14]) == (403, "SubCode=40300.")
        assert f"{limit + 1} {noun} and {limit} is the limit" in answer.detail
        assert (await call("DELETE", f"{other}/rules/first")).status == 200
        await add_rule(connection, "fits-now", description)


async def test_rules_of_a_transaction_are_counted_with_its_commit(
    make_server: Callable[..., ServerProcess],
) -> None:
    """Two transactions that fit alone do not fit together."""
    server = make_server(*LIMITED)
    async with Witness(server), await server.connect() as connection:
        controller = await connection.controller()
        transactions = [await controller.declare() for _ in range(2)]
        for at, transaction in enumerate(transactions):
            for number in range(3):
                await add_rule_in(connection, f"r-{at}-{number}", transaction.state())
        await transactions[0].commit()
        with pytest.raises(NotAccepted, match="6 sql rules and 5 is the limit"):
            await transactions[1].commit()
        names = await rule_names(connection)
        assert sorted(names) == ["$Default", "r-0-0", "r-0-1", "r-0-2"]


async def add_rule_in(connection: ClientConnection, name: str, state: bytes) -> None:
    body = {
        "rule-name": name,
        "rule-description": {"sql-filter": {"expression": "a = 1"}},
    }
    operation = {"operation": "com.microsoft:add-rule"}
    request = Message(application_properties=operation, body=AmqpValue(body))
    address = f"{SUBSCRIPTION}/$management"
    answer = await connection.request(address, request, state=state)
    assert (answer.application_properties or {})["statusCode"] == 200


@pytest.mark.parametrize(
    ("filter", "limit"),
    [
        (sql_filter("a = 1"), SQL_RULES_PER_TOPIC),
        (correlation_filter({"label": "x"}), CORRELATION_RULES_PER_TOPIC),
    ],
    ids=["sql", "correlation"],
)
async def test_documented_numbers_of_rules(filter: Filter, limit: int) -> None:
    """The real ones, in a bus without a network."""
    world = World()
    await world.start()
    try:
        namespace = world.namespace
        await namespace.create_topic("news", {})
        rules = [Rule(f"r{number}", filter, None, 0) for number in range(limit - 1)]
        await namespace.create_subscription("news", "first", {}, rules)
        await namespace.create_subscription("news", "second", {}, [])
        last = Rule("last", filter, None, 0)
        await namespace.add_rule("news", "second", last)
        with pytest.raises(QuotaExceeded, match=f"{limit + 1} .* {limit} is the limit"):
            await namespace.add_rule("news", "first", last)
        with pytest.raises(QuotaExceeded):
            await namespace.create_subscription("news", "third", {}, [last])
        await namespace.remove_rule("news", "first", "r0")
        await namespace.add_rule("news", "first", last)
    finally:
        await world.stop()
