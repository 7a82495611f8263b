"""Descriptions as XML: the order and details that clients depend on."""

from dataclasses import fields
from typing import Any

import pytest

from twinbus.broker.descriptions.access_rule import AccessRule
from twinbus.broker.descriptions.queue import QueueDescription, queue_description
from twinbus.broker.descriptions.subscription import SubscriptionDescription
from twinbus.broker.descriptions.topic import TopicDescription
from twinbus.doors.http.administration.description_fields import (
    QUEUE_FIELDS,
    SUBSCRIPTION_FIELDS,
    TOPIC_FIELDS,
)
from twinbus.doors.http.administration.description_xml import (
    read_properties,
    write_description,
)
from twinbus.doors.http.administration.xml_reading import XmlElement, read_xml
from twinbus.entities.message_counts import MessageCounts
from twinbus.errors import ArgumentError

from .entities import PlainQueue

QUEUE_ELEMENTS = (
    "LockDuration MaxSizeInMegabytes RequiresDuplicateDetection RequiresSession "
    "DefaultMessageTimeToLive DeadLetteringOnMessageExpiration "
    "DuplicateDetectionHistoryTimeWindow MaxDeliveryCount EnableBatchedOperations "
    "SizeInBytes MessageCount IsAnonymousAccessible AuthorizationRules Status "
    "ForwardTo UserMetadata CreatedAt UpdatedAt AccessedAt SupportOrdering "
    "CountDetails AutoDeleteOnIdle EnablePartitioning EntityAvailabilityStatus "
    "ForwardDeadLetteredMessagesTo EnableExpress MaxMessageSizeInKilobytes"
).split()


def written(queue: PlainQueue) -> str:
    more = {"SizeInBytes": str(queue.size_bytes())}
    description = queue.description
    return write_description("QueueDescription", QUEUE_FIELDS, queue, description, more)


def read(xml: str | bytes, *, is_update: bool = False) -> dict[str, Any]:
    root = read_xml(xml if isinstance(xml, bytes) else xml.encode())
    return read_properties(
        root, QUEUE_FIELDS, "orders", is_update=is_update, new_key=lambda: "made"
    )


FULL = QueueDescription(
    lock_duration_ms=30_000,
    requires_session=True,
    default_message_time_to_live_ms=86_400_000,
    max_delivery_count=3,
    status="SendDisabled",
    forward_to="sb://bus/target",
    forward_dead_lettered_messages_to="sb://bus/graves",
    user_metadata="<a> & \r\n\u00e9\U0001f600",
    auto_delete_on_idle_ms=600_000,
    enable_batched_operations=False,
    max_message_size_in_kilobytes=256,
    authorization_rules=(
        AccessRule(key_name="k", primary_key="p", secondary_key="s", rights=("Send",)),
    ),
)


def test_elements_are_in_the_order_of_the_service() -> None:
    root = read_xml(written(PlainQueue(FULL)).encode())
    assert [child.name for child in root.children] == QUEUE_ELEMENTS


def test_every_property_has_its_element() -> None:
    for description, table in (
        (QueueDescription(), QUEUE_FIELDS),
        (TopicDescription(), TOPIC_FIELDS),
        (SubscriptionDescription(), SUBSCRIPTION_FIELDS),
    ):
        properties = {field.property for field in table if field.property}
        assert properties == {field.name for field in fields(description)}


def test_what_is_written_reads_the_same() -> None:
    found = queue_description(read(written(PlainQueue())), "orders")
    assert found == QueueDescription()
    properties = read(written(PlainQueue(FULL)))
    assert {**properties, "authorization_rules": FULL.authorization_rules} == {
        field.name: getattr(FULL, field.name) for field in fields(FULL)
    }
    assert properties["authorization_rules"] == list(FULL.authorization_rules)


def test_texts_that_are_not_there_are_left_out() -> None:
    xml = written(PlainQueue())
    for name in ("ForwardTo", "UserMetadata", "ForwardDeadLetteredMessagesTo"):
        assert name not in xml


def test_for_ever_is_the_longest_duration() -> None:
    longest = "P10675199DT2H48M5.4775807S"
    assert f"<DefaultMessageTimeToLive>{longest}</" in written(PlainQueue())
    # What Python makes of it.
    rounded = "P10675199DT2H48M5.477539S"
    xml = f"<q><DefaultMessageTimeToLive>{rounded}</DefaultMessageTimeToLive></q>"
    assert read(xml) == {"default_message_time_to_live_ms": 0}


def test_counts_have_the_one_prefix_that_javascript_wants() -> None:
    counts = MessageCounts(
        active=1, dead_letter=2, scheduled=3, transfer=4, transfer_dead_letter=5
    )
    xml = written(PlainQueue(message_counts=counts))
    namespace = "http://schemas.microsoft.com/netservices/2011/06/servicebus"
    assert (
        f'<CountDetails xmlns:d2p1="{namespace}">'
        "<d2p1:ActiveMessageCount>1</d2p1:ActiveMessageCount>"
        "<d2p1:DeadLetterMessageCount>2</d2p1:DeadLetterMessageCount>"
        "<d2p1:ScheduledMessageCount>3</d2p1:ScheduledMessageCount>"
        "<d2p1:TransferMessageCount>4</d2p1:TransferMessageCount>"
        "<d2p1:TransferDeadLetterMessageCount>5</d2p1:TransferDeadLetterMessageCount>"
        "</CountDetails>"
    ) in xml
    assert "<MessageCount>15</MessageCount>" in xml


def test_times_are_utc_and_never_is_the_first_day() -> None:
    xml = written(PlainQueue())
    assert "<CreatedAt>2023-11-14T22:13:20.123Z</CreatedAt>" in xml
    assert "<AccessedAt>0001-01-01T00:00:00Z</AccessedAt>" in xml


def test_what_xml_cannot_say_is_replaced() -> None:
    odd = QueueDescription(user_metadata="a\x00b\x1b\ufffe\ud800c")
    assert (
        read(written(PlainQueue(odd)))["user_metadata"]
        == "a\ufffdb" + "\ufffd" * 3 + "c"
    )


def test_read_only_and_unknown_elements_are_ignored() -> None:
    xml = (
        "<q><SizeInBytes>x</SizeInBytes><MessageCount>9</MessageCount><CountDetails/>"
        "<CreatedAt>never</CreatedAt><FromTheFuture>1</FromTheFuture>"
        "<MaxDeliveryCount> 4 </MaxDeliveryCount></q>"
    )
    assert read(xml) == {"max_delivery_count": 4}


def test_an_update_clears_texts_that_it_leaves_out() -> None:
    assert read("<q/>") == {}
    assert read("<q/>", is_update=True) == {
        "forward_to": "",
        "forward_dead_lettered_messages_to": "",
        "user_metadata": "",
    }


def test_rules_without_keys_are_given_some() -> None:
    xml = (
        "<q><AuthorizationRules><AuthorizationRule><KeyName>k</KeyName>"
        "<Rights><AccessRights>Listen</AccessRights></Rights>"
        "</AuthorizationRule></AuthorizationRules></q>"
    )
    (rule,) = read(xml)["authorization_rules"]
    assert (rule.key_name, rule.rights) == ("k", ("Listen",))
    assert (rule.primary_key, rule.secondary_key) == ("made", "made")


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("LockDuration", "tomorrow", "'tomorrow' is not a duration"),
        ("LockDuration", "", "'' is not a duration"),
        ("LockDuration", "P1Y", "'P1Y' is not a duration"),
        ("LockDuration", "PT0S", "not longer than a moment"),
        ("MaxDeliveryCount", "many", "'many' is not a whole number"),
        ("MaxDeliveryCount", "1e3", "not a whole number"),
        ("MaxDeliveryCount", "9" * 10_000, "not a whole number"),
        ("MaxDeliveryCount", "--1", "not a whole number"),
        ("RequiresSession", "maybe", "'maybe' is neither true nor false"),
        ("AuthorizationRules", "<AuthorizationRule/>", "has no KeyName"),
    ],
)
def test_values_that_are_none_are_refused(name: str, text: str, complaint: str) -> None:
    with pytest.raises(ArgumentError, match=complaint):
        read(f"<q><{name}>{text}</{name}></q>")


def test_a_description_declares_its_namespaces() -> None:
    start = (
        '<QueueDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/'
        'servicebus/connect" xmlns:i="http://www.w3.org/2001/XMLSchema-instance">'
    )
    assert written(PlainQueue()).startswith(start)


def test_rules_are_written_with_their_type() -> None:
    root = read_xml(written(PlainQueue(FULL)).encode())
    rules = root.child("AuthorizationRules")
    assert rules is not None
    (rule,) = rules.children
    assert isinstance(rule, XmlElement)
    assert rule.type_name == "SharedAccessAuthorizationRule"
    assert [child.name for child in rule.children] == (
        "ClaimType ClaimValue Rights CreatedTime ModifiedTime KeyName PrimaryKey "
        "SecondaryKey"
    ).split()


@pytest.mark.parametrize(
    ("all_stores_serve", "status"), [(True, "Available"), (False, "Limited")]
)
def test_availability_is_limited_while_a_store_is_away(
    all_stores_serve: bool, status: str
) -> None:
    xml = written(PlainQueue(all_stores_serve=all_stores_serve))
    element = f"<EntityAvailabilityStatus>{status}</EntityAvailabilityStatus>"
    assert element in xml
