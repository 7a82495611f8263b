"""Copies changed by actions: named properties change, everything else stays."""

import pytest

from twinbus.amqp.codec import encode
from twinbus.amqp.messaging import (
    AmqpValue,
    Data,
    Header,
    Properties,
    decode_message,
    encode_message,
)
from twinbus.amqp.messaging import Message as AmqpMessage
from twinbus.amqp.types import Byte, Int, Symbol, Timestamp, UInt, ULong
from twinbus.broker.message import Annex, Message
from twinbus.encoding.incoming import read_message
from twinbus.encoding.message_view import EncodedView
from twinbus.encoding.outgoing import encode_delivery
from twinbus.encoding.rewriting import rewritten
from twinbus.limits import DURATION_MS_UNLIMITED
from twinbus.rules.filter_error import FilterError
from twinbus.rules.filters import TrueFilter
from twinbus.rules.sql.rule_checks import check_rule, sql_action
from twinbus.rules.values import Duration, Instant

SENT = AmqpMessage(
    header=Header(durable=True, priority=7, ttl=60_000),
    delivery_annotations={"x-hop": 1},
    message_annotations={"x-opt-partition-key": "p", "x-own": Int(3)},
    properties=Properties(
        message_id=ULong(5), subject="order", user_id=b"u", group_sequence=9
    ),
    application_properties={
        "Region": "eu",
        "number": Int(5),
        "kept": Byte(1),
        "time": Timestamp(5),
    },
    body=Data((b"one", b"two")),
    footer={"x-foot": 1},
)


def rewrite(text: str, sent: AmqpMessage = SENT, **parameters: object) -> Message:
    message = read_message(encode_message(sent))
    rule = check_rule("mine", TrueFilter(), sql_action(text, parameters), 0)
    return rewritten(message, rule, EncodedView(message, 1, bytes))


def sections(text: str, sent: AmqpMessage = SENT, **parameters: object) -> AmqpMessage:
    return decode_message(rewrite(text, sent, **parameters).raw)


def typed_items(values: dict[object, object] | None) -> list[tuple[object, ...]]:
    return [(key, value, type(value)) for key, value in (values or {}).items()]


def test_application_properties_are_set_removed_and_otherwise_kept() -> None:
    found = sections("SET REGION = 'us'; SET fresh = 1; SET number = '6'; REMOVE time")
    assert typed_items(found.application_properties) == [
        ("kept", 1, Byte),
        ("Region", "us", str),
        ("fresh", 1, int),
        ("number", 6, Int),
        ("RuleName", "mine", str),
    ]


def test_everything_that_is_not_named_is_as_it_was_sent() -> None:
    found = sections("SET fresh = 1")
    assert found.header == SENT.header
    assert found.delivery_annotations == SENT.delivery_annotations
    assert found.message_annotations == SENT.message_annotations
    assert found.properties == SENT.properties
    assert found.body == SENT.body
    assert found.footer == SENT.footer


def test_system_properties_are_rewritten_beside_those_that_stay() -> None:
    found = sections(
        "SET sys.MessageId = 'm'; SET sys.To = 't'; SET sys.Label = NULL;"
        "SET sys.SessionId = 's'; SET sys.ReplyToSessionId = 'r';"
        "SET sys.ContentType = 'text/plain'; SET sys.CorrelationId = Region;"
        "SET sys.ReplyTo = 'back'"
    ).properties
    assert found == Properties(
        message_id="m",
        user_id=b"u",
        to="t",
        subject=None,
        reply_to="back",
        correlation_id="eu",
        content_type=Symbol("text/plain"),
        group_id="s",
        group_sequence=9,
        reply_to_group_id="r",
    )


def test_message_without_sections_gets_those_it_needs() -> None:
    found = sections("SET sys.Label = 'x'; SET a = 1", AmqpMessage(body=AmqpValue(5)))
    assert found.properties == Properties(subject="x")
    assert found.application_properties == {"a": 1, "RuleName": "mine"}
    assert found.body == AmqpValue(5)
    assert found.message_annotations is None


def test_annotations_are_rewritten_beside_those_that_stay() -> None:
    copy = rewrite(
        "SET sys.PartitionKey = 'q'; SET sys.ScheduledEnqueueTimeUtc = @at",
        at=Instant(9),
    )
    annotations = decode_message(copy.raw).message_annotations
    assert annotations == {
        "x-own": 3,
        "x-opt-partition-key": "q",
        "x-opt-scheduled-enqueue-time": Timestamp(9),
    }
    assert copy.scheduled_at == 0
    found = sections("REMOVE sys.PartitionKey").message_annotations
    assert found == {"x-own": 3}
    found = sections("SET sys.PartitionKey = 'q'", AmqpMessage()).message_annotations
    assert found == {"x-opt-partition-key": "q"}


def test_session_of_the_copy_is_the_one_that_was_set() -> None:
    assert rewrite("SET sys.SessionId = 's'").session_id == "s"
    assert rewrite("SET a = 1").session_id is None


def test_copy_is_delivered_like_any_message() -> None:
    copy = rewrite("SET sys.PartitionKey = 'q'; SET Region = 'us'")
    copy.enqueued_at = 5
    found = decode_message(encode_delivery(copy, 3, 0))
    assert found.header is not None
    assert (found.header.priority, found.header.ttl) == (7, UInt(60_000))
    assert (found.application_properties or {})["Region"] == "us"
    assert (found.message_annotations or {})["x-own"] == 3
    assert found.body == SENT.body


def test_time_to_live_of_the_copy() -> None:
    assert rewrite("SET a = 1").ttl_ms == 60_000
    assert rewrite("SET sys.TimeToLive = @d", d=Duration(5)).ttl_ms == 5
    assert rewrite("REMOVE sys.TimeToLive").ttl_ms == 0
    assert (
        rewrite("SET sys.TimeToLive = @d", d=Duration(DURATION_MS_UNLIMITED)).ttl_ms
        == 0
    )
    with pytest.raises(FilterError, match="TimeToLive"):
        rewrite("SET sys.TimeToLive = @d", d=Duration(0))


def test_times_of_the_bus_and_not_of_the_header_go_with_the_copy() -> None:
    message = read_message(encode_message(SENT))
    message.ttl_ms = 7
    message.scheduled_at = 9
    rule = check_rule("mine", TrueFilter(), sql_action("SET a = 1"), 0)
    copy = rewritten(message, rule, EncodedView(message, 1, bytes))
    assert (copy.ttl_ms, copy.scheduled_at) == (7, 9)


def test_rule_name_is_the_bus_own() -> None:
    sent = AmqpMessage(application_properties={"RuleName": "forged"})
    found = sections("SET RuleName = 'mine too'", sent)
    assert found.application_properties == {"RuleName": "mine"}


def test_lists_and_maps_can_be_copied() -> None:
    sent = AmqpMessage(application_properties={"a": [1, "x"]})
    found = sections("SET b = a", sent).application_properties
    assert found == {"a": [1, "x"], "b": [1, "x"], "RuleName": "mine"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("SET sys.MessageId = @long", "'sys.messageid' was set to 129 characters"),
        ("SET sys.SessionId = @long", "'sys.sessionid'"),
        ("SET sys.PartitionKey = @long", "'sys.partitionkey'"),
        ("SET sys.ContentType = 'größe'", "not ASCII"),
        ("SET a = 1 / 0", "divided by zero"),
    ],
)
def test_action_fails_on_what_no_message_may_have(text: str, problem: str) -> None:
    with pytest.raises(FilterError, match=problem):
        rewrite(text, long="x" * 129)


def test_properties_do_not_outgrow_their_limit() -> None:
    sent = AmqpMessage(application_properties={"a": "x" * 20_000})
    assert rewrite("SET b = a; SET c = a", sent)
    with pytest.raises(FilterError, match=r"rule 'mine'.*65536"):
        rewrite("SET b = a; SET c = a; SET d = a", sent)


def test_what_settlements_wrote_yields_to_the_action() -> None:
    message = read_message(encode_message(SENT))
    message.annex = Annex(
        modified={"Number": encode(8), "other": encode(9)},
        dead_letter_reason="why",
        dead_letter_description="because",
        enqueued_sequence_number=3,
    )
    text = "SET number = number + 1; REMOVE DeadLetterReason"
    rule = check_rule("mine", TrueFilter(), sql_action(text), 0)
    copy = rewritten(message, rule, EncodedView(message, 1, bytes))
    assert copy.annex == Annex(
        modified={"other": encode(9)},
        dead_letter_description="because",
        enqueued_sequence_number=3,
    )
    found = decode_message(copy.raw).application_properties or {}
    assert found["number"] == 9
