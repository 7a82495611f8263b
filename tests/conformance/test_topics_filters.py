"""SB-T-02xx: which messages a rule selects, for every kind of filter.

One topic has a subscription for each filter, and the same three messages go to all of
them: `red` and `blue` with properties, and `bare` without any. Then each subscription
is peeked over one connection. The rules use the documented language: three-valued
logic, names ignoring case, values including their type.
"""

import asyncio

import pytest
from azure.servicebus import ServiceBusMessage
from crash.messages import peek_all

from twinbus.amqp.sasl import plain
from twinbus.client import connect
from twinbus.errors import ServiceBusError
from twinbus.rules.filters import FalseFilter, TrueFilter
from twinbus.rules.sql.rule_checks import check_rule, correlation_filter, sql_filter

from .sdk import send_by_session

ALL, NONE = "red blue bare", ""

SQL = [
    ("color = 'red'", "red"),
    ("color <> 'red'", "blue"),
    ("color != 'red'", "blue"),
    ("NOT (color = 'red')", "blue"),
    ("NOT color = 'red'", "blue"),
    ("color = 'RED'", NONE),
    ("COLOR = 'red'", "red"),
    ("user.color = 'red'", "red"),
    ("[color] = 'red'", "red"),
    ("\"color\" = 'red'", "red"),
    ("[odd name] = 1", "blue"),
    ("color IS NULL", "bare"),
    ("color IS NOT NULL", "red blue"),
    ("EXISTS(color)", "red blue"),
    ("NOT EXISTS(color)", "bare"),
    ("color IN ('red', 'blue')", "red blue"),
    ("color NOT IN ('red')", "blue"),
    ("size IN (10, 11)", "red"),
    ("color LIKE 'r%'", "red"),
    ("color LIKE '%e%'", "red blue"),
    ("color LIKE '_lue'", "blue"),
    ("color NOT LIKE 'r%'", "blue"),
    ("note LIKE '100%'", "red blue"),
    (r"note LIKE '100\%' ESCAPE '\'", "red"),
    ("quote = 'it''s'", "blue"),
    ("color + '!' = 'red!'", "red"),
    ("size > 10", "blue"),
    ("size >= 10", "red blue"),
    ("size < 20", "red"),
    ("size <= 20", "red blue"),
    ("size * 2 = 20", "red"),
    ("size + 5 > 20", "blue"),
    ("size - 5 < 10", "red"),
    ("size / 10 = 1", "red"),
    ("size % 20 = 0", "blue"),
    ("-size < -15", "blue"),
    ("2 + 2 * 10 = 22", ALL),
    ("(2 + 2) * 10 = 22", NONE),
    ("weight = 1.5", "red"),
    ("weight > 1", "red"),
    ("weight < 1e1", "red"),
    ("size = 10.0", "red"),
    ("size = '10'", NONE),
    ("urgent", "red"),
    ("urgent = TRUE", "red"),
    ("urgent = FALSE", "blue"),
    ("NOT urgent", "blue"),
    ("size > 10 OR color = 'red'", "red blue"),
    ("size > 10 AND color = 'red'", NONE),
    # NOT binds before AND, AND before OR.
    ("color = 'red' OR color = 'blue' AND size = 99", "red"),
    ("NOT color = 'red' AND size = 20", "blue"),
    # What is unknown stays unknown, unless the other side decides.
    ("missing = 1", NONE),
    ("NOT (missing = 1)", NONE),
    ("missing <> 1", NONE),
    ("missing = 1 OR color = 'red'", "red"),
    ("missing = 1 AND color = 'red'", NONE),
    ("NOT (missing = 1 AND color = 'red')", "blue"),
    ("missing + 1 = 1", NONE),
    ("missing LIKE '%'", NONE),
    ("missing IN (1)", NONE),
    ("missing NOT IN (1)", NONE),
    ("sys.Label = 'alarm'", "red"),
    ("sys.label LIKE 'in%'", "blue"),
    ("sys.MessageId = 'bare'", "bare"),
    ("property('color') = 'red'", "red"),
    ("p('color') = 'blue'", "blue"),
    ("1 = 1", ALL),
    ("TRUE", ALL),
    ("1 = 0", NONE),
]

CORRELATION = [
    ({"label": "alarm"}, {}, "red"),
    ({"label": "ALARM"}, {}, NONE),
    ({"message_id": "bare"}, {}, "bare"),
    ({"correlation_id": "c"}, {}, "blue"),
    ({"to": "there"}, {}, "red"),
    ({"reply_to": "here"}, {}, "red"),
    ({"session_id": "s"}, {}, "red"),
    ({"reply_to_session_id": "rs"}, {}, "red"),
    ({"content_type": "text/plain"}, {}, "red"),
    ({}, {"color": "blue"}, "blue"),
    ({}, {"COLOR": "blue"}, "blue"),
    ({}, {"color": "Blue"}, NONE),
    ({}, {"size": 10}, "red"),
    ({}, {"size": "10"}, NONE),
    ({}, {"urgent": True}, "red"),
    ({"label": "alarm"}, {"color": "red", "size": 10}, "red"),
    ({"label": "alarm"}, {"color": "blue"}, NONE),
]

PARAMETERS = [
    ("color = @wanted", {"@wanted": "blue"}, "blue"),
    ("size > @least AND size < @most", {"@least": 5, "@most": 15}, "red"),
]

FILTERS = {
    **{text: (sql_filter(text), wanted) for text, wanted in SQL},
    **{
        f"correlation {fields} {properties}": (
            correlation_filter(fields, properties),
            wanted,
        )
        for fields, properties, wanted in CORRELATION
    },
    **{
        f"{text} with {values}": (sql_filter(text, values), wanted)
        for text, values, wanted in PARAMETERS
    },
    "true": (TrueFilter(), ALL),
    "false": (FalseFilter(), NONE),
}


def _messages():
    return [
        ServiceBusMessage(
            "",
            message_id="red",
            subject="alarm",
            to="there",
            reply_to="here",
            session_id="s",
            reply_to_session_id="rs",
            content_type="text/plain",
            application_properties={
                **{"color": "red", "size": 10, "weight": 1.5},
                **{"urgent": True, "note": "100%"},
            },
        ),
        ServiceBusMessage(
            "",
            message_id="blue",
            subject="info",
            correlation_id="c",
            application_properties={
                **{"color": "blue", "size": 20, "quote": "it's"},
                **{"urgent": False, "note": "1000", "odd name": 1},
            },
        ),
        ServiceBusMessage("", message_id="bare", subject=""),
    ]


@pytest.fixture(scope="module")
def selected(bus, sync_sdk):
    """What each subscription got: message ids by the name of its filter."""
    bus.create_topic("filtered")
    numbers = {name: f"s{number}" for number, name in enumerate(FILTERS)}
    for name, (chosen, _) in FILTERS.items():
        rule = check_rule("only", chosen, None, 0)
        bus.create_subscription("filtered", numbers[name], [rule])
    send_by_session(sync_sdk.topic_sender("filtered"), _messages())
    return asyncio.run(_peek(bus, numbers))


async def _peek(bus, numbers):
    sasl = plain(bus.key_name, bus.key)
    got = {}
    async with await connect("127.0.0.1", bus.port, sasl=sasl) as connection:
        for name, subscription in numbers.items():
            path = f"filtered/Subscriptions/{subscription}"
            dead = await peek_all(connection, f"{path}/$DeadLetterQueue")
            assert dead == [], f"{name} failed for {dead}"
            found = await peek_all(connection, path)
            got[name] = " ".join(item.name for item in found)
    return got


@pytest.mark.parametrize("name", FILTERS)
def test_filter_selects(selected, name):
    """SB-T-0201 the filter selects the messages that the documented language says."""
    assert sorted(selected[name].split()) == sorted(FILTERS[name][1].split())


@pytest.mark.parametrize(
    "text",
    [
        *("color =", "= 1", "color = 'red", "(color = 1", "color LIKE", ""),
        *("SELECT 1", "color = 1;", "color == 1", "LIKE = 1", "1 = 1 AND"),
        "color = @nobody",
        "a = '" + "x" * 1024 + "'",
    ],
)
def test_text_that_is_no_filter_is_refused(text):
    """SB-T-0202 a malformed or too long filter is refused when it is made."""
    with pytest.raises(ServiceBusError) as refusal:
        sql_filter(text)
    assert refusal.value.http_status == 400


def test_correlation_filter_must_ask_something():
    """SB-T-0203 a correlation filter without any property is refused."""
    with pytest.raises(ServiceBusError):
        correlation_filter({})
