"""SB-A Administration of entities with the SDK's own client, over HTTPS."""

import itertools
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ResourceNotFoundError,
)
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.management import (
    AuthorizationRule,
    CorrelationRuleFilter,
    FalseRuleFilter,
    SqlRuleAction,
    SqlRuleFilter,
    TrueRuleFilter,
)

from twinbus.testing import Bus

from .administration import AsyncAdministration, SyncAdministration
from .setups import own_size

FOR_EVER = timedelta(days=10_675_199)
_FACES = {"sync": SyncAdministration, "async": AsyncAdministration}
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def bus(new_bus: Callable[..., Any]) -> Iterator[Bus]:
    with new_bus(tls=True) as running:
        yield running


@pytest.fixture(scope="module", params=["sync", "async"])
def client(request: pytest.FixtureRequest, bus: Bus) -> Iterator[Any]:
    made = _FACES[request.param](bus)
    yield made
    made.close()


@pytest.fixture
def name() -> str:
    """A name that nobody has used; it contains a slash, as names may."""
    return f"sales/entity-{next(_numbers)}"


@pytest.fixture
def topic(client: Any, name: str) -> str:
    client.create_topic(name)
    return name


# --- queues ---------------------------------------------------------------------


@own_size
def test_a_queue_is_created_with_the_defaults_of_the_service(
    client: Any, name: str
) -> None:
    """SB-A-001"""
    for queue in (client.create_queue(name), client.get_queue(name)):
        assert queue.name == name
        assert queue.lock_duration == timedelta(minutes=1)
        assert queue.max_size_in_megabytes == 1024
        assert queue.max_delivery_count == 10
        assert queue.default_message_time_to_live >= FOR_EVER
        assert queue.auto_delete_on_idle >= FOR_EVER
        assert queue.duplicate_detection_history_time_window == timedelta(minutes=10)
        assert queue.status == "Active"
        assert queue.availability_status == "Available"
        assert queue.enable_batched_operations is True
        for flag in (
            *("requires_session", "requires_duplicate_detection"),
            *("dead_lettering_on_message_expiration", "enable_partitioning"),
            "enable_express",
        ):
            assert getattr(queue, flag) is False
        assert queue.forward_to is None
        assert not queue.authorization_rules


@own_size
def test_a_queue_is_created_with_what_is_asked_for(client: Any, name: str) -> None:
    """SB-A-002"""
    rule = AuthorizationRule(
        type="SharedAccessAuthorizationRule",
        claim_type="SharedAccessKey",
        key_name="reader",
        primary_key="first",
        secondary_key="second",
        rights=["Listen"],
    )
    asked = {
        "lock_duration": timedelta(seconds=13),
        "max_size_in_megabytes": 3072,
        "requires_session": True,
        "requires_duplicate_detection": True,
        "default_message_time_to_live": timedelta(minutes=11),
        "dead_lettering_on_message_expiration": True,
        "duplicate_detection_history_time_window": timedelta(minutes=12),
        "max_delivery_count": 14,
        "enable_batched_operations": False,
        "auto_delete_on_idle": timedelta(minutes=10),
        "user_metadata": "<text> & more",
        "status": "ReceiveDisabled",
        "max_message_size_in_kilobytes": 128,
    }
    client.create_queue(name, authorization_rules=[rule], **asked)
    found = client.get_queue(name)
    assert {key: getattr(found, key) for key in asked} == asked
    (kept,) = found.authorization_rules
    assert (kept.key_name, kept.rights) == ("reader", ["Listen"])
    assert (kept.primary_key, kept.secondary_key) == ("first", "second")
    assert kept.type == "SharedAccessAuthorizationRule"
    assert kept.created_at_utc is not None


def test_a_queue_is_updated(client: Any, name: str) -> None:
    """SB-A-003 what was read is sent back with changes, read-only parts included."""
    queue = client.create_queue(name, user_metadata="old")
    queue.max_delivery_count = 3
    queue.lock_duration = timedelta(seconds=30)
    queue.user_metadata = None
    client.update_queue(queue)
    found = client.get_queue(name)
    assert (found.max_delivery_count, found.lock_duration) == (3, timedelta(seconds=30))
    assert found.user_metadata is None
    assert found.default_message_time_to_live >= FOR_EVER


def test_a_queue_forwards_to_another(client: Any, bus: Bus, name: str) -> None:
    """SB-A-004 the target is told as a URI, as the SDK sends it."""
    client.create_queue(f"{name}-target")
    client.create_queue(
        name,
        forward_to=f"{name}-target",
        forward_dead_lettered_messages_to=f"{name}-target",
    )
    found = client.get_queue(name)
    expected = f"sb://localhost:{bus.port}/{name}-target"
    assert found.forward_to == expected
    assert found.forward_dead_lettered_messages_to == expected
    found.forward_to = None
    client.update_queue(found)
    assert client.get_queue(name).forward_to is None


def test_a_queue_is_deleted(client: Any, name: str) -> None:
    """SB-A-005"""
    client.create_queue(name)
    client.delete_queue(name)
    with pytest.raises(ResourceNotFoundError):
        client.get_queue(name)
    with pytest.raises(ResourceNotFoundError):
        client.delete_queue(name)


def test_names_are_compared_without_case(client: Any, name: str) -> None:
    """SB-A-006"""
    client.create_queue(name)
    client.create_queue(f"{name}-other")
    client.delete_queue(f"{name}-other".upper())
    assert [q.name for q in client.list_queues() if q.name.startswith(name)] == [name]
    with pytest.raises(ResourceExistsError):
        client.create_queue(name.upper())


def test_counts_of_a_queue(client: Any, bus: Bus, name: str) -> None:
    """SB-A-007"""
    client.create_queue(name)
    amqp = ServiceBusClient.from_connection_string(bus.connection_string)
    with amqp, amqp.get_queue_sender(name) as sender:
        sender.send_messages([ServiceBusMessage("x") for _ in range(3)])
        sender.schedule_messages(
            ServiceBusMessage("later"), bus.now() + timedelta(hours=1)
        )
        with amqp.get_queue_receiver(name) as receiver:
            (message,) = receiver.receive_messages(max_wait_time=20)
            receiver.dead_letter_message(message)
    found = client.get_queue_runtime_properties(name)
    assert found.name == name
    assert found.active_message_count == 2
    assert found.scheduled_message_count == 1
    assert found.dead_letter_message_count == 1
    assert found.transfer_message_count == 0
    assert found.transfer_dead_letter_message_count == 0
    assert found.total_message_count == 4
    assert found.size_in_bytes > 0
    assert found.created_at_utc <= found.updated_at_utc
    assert found.accessed_at_utc is not None


def test_all_queues_are_listed_in_pages(client: Any, name: str) -> None:
    """SB-A-008 a page has a hundred entries, unless the client wants fewer."""
    names = {f"{name}/{number:03}" for number in range(7)}
    for each in names:
        client.create_queue(each)
    everything = [queue.name for queue in client.list_queues()]
    assert names <= set(everything)
    for options in ({"max_page_size": 2}, {"max_page_size": 1}):
        assert [queue.name for queue in client.list_queues(**options)] == everything
    runtime = client.list_queues_runtime_properties(max_page_size=3)
    assert [queue.name for queue in runtime] == everything
    later = client.list_queues(start_index=2, max_page_size=2)
    assert [queue.name for queue in later] == everything[2:]


# --- topics and subscriptions ---------------------------------------------------


@own_size
def test_a_topic_from_creation_to_removal(client: Any, name: str) -> None:
    """SB-A-010"""
    topic = client.create_topic(
        name,
        default_message_time_to_live=timedelta(minutes=11),
        max_size_in_megabytes=2048,
        requires_duplicate_detection=True,
        duplicate_detection_history_time_window=timedelta(minutes=12),
        user_metadata="mine",
    )
    assert (topic.name, topic.max_size_in_megabytes) == (name, 2048)
    topic.default_message_time_to_live = timedelta(minutes=9)
    client.update_topic(topic)
    found = client.get_topic(name)
    assert found.default_message_time_to_live == timedelta(minutes=9)
    assert (found.requires_duplicate_detection, found.user_metadata) == (True, "mine")
    assert name in [each.name for each in client.list_topics()]
    client.delete_topic(name)
    with pytest.raises(ResourceNotFoundError):
        client.get_topic(name)


def test_queues_and_topics_share_their_names(client: Any, topic: str) -> None:
    """SB-A-011"""
    with pytest.raises(ResourceExistsError):
        client.create_queue(topic)
    queue = client.create_queue(f"{topic}-queue")
    queue.name = topic
    with pytest.raises(ResourceNotFoundError):
        client.update_queue(queue)


def test_a_subscription_from_creation_to_removal(client: Any, topic: str) -> None:
    """SB-A-012"""
    subscription = client.create_subscription(
        topic,
        "all",
        lock_duration=timedelta(seconds=10),
        max_delivery_count=4,
        dead_lettering_on_filter_evaluation_exceptions=False,
    )
    assert subscription.name == "all"
    assert subscription.lock_duration == timedelta(seconds=10)
    assert subscription.dead_lettering_on_filter_evaluation_exceptions is False
    subscription.max_delivery_count = 5
    client.update_subscription(topic, subscription)
    assert client.get_subscription(topic, "ALL").max_delivery_count == 5
    client.create_subscription(topic, "other")
    names = [each.name for each in client.list_subscriptions(topic, max_page_size=1)]
    assert names == ["all", "other"]
    assert client.get_topic_runtime_properties(topic).subscription_count == 2
    client.delete_subscription(topic, "all")
    with pytest.raises(ResourceNotFoundError):
        client.get_subscription(topic, "all")


def test_counts_of_a_subscription(client: Any, bus: Bus, topic: str) -> None:
    """SB-A-013"""
    client.create_subscription(topic, "s")
    amqp = ServiceBusClient.from_connection_string(bus.connection_string)
    with amqp, amqp.get_topic_sender(topic) as sender:
        sender.send_messages([ServiceBusMessage("x") for _ in range(3)])
    (found,) = client.list_subscriptions_runtime_properties(topic)
    assert (found.name, found.active_message_count) == ("s", 3)
    assert found.total_message_count == 3


def test_a_subscription_of_no_topic(client: Any, name: str) -> None:
    """SB-A-014"""
    with pytest.raises(ResourceNotFoundError):
        client.create_subscription(name, "s")
    with pytest.raises(ResourceNotFoundError):
        client.list_subscriptions(name)


# --- rules ----------------------------------------------------------------------


def test_a_subscription_begins_with_the_default_rule(client: Any, topic: str) -> None:
    """SB-A-020"""
    client.create_subscription(topic, "s")
    (rule,) = client.list_rules(topic, "s")
    assert rule.name == "$Default"
    assert isinstance(rule.filter, TrueRuleFilter)
    assert rule.action is None


RULES = {
    "sql": (
        SqlRuleFilter("a = @n AND b = @s", parameters={"@n": 5, "@s": "x<y"}),
        SqlRuleAction("SET c = @d", parameters={"@d": 2.5}),
    ),
    "correlation": (
        CorrelationRuleFilter(
            correlation_id="1",
            message_id="2",
            to="3",
            reply_to="4",
            label="5",
            session_id="6",
            reply_to_session_id="7",
            content_type="8",
            properties={
                **{"s": "t", "i": 5, "l": 1 << 40, "d": 2.5, "b": True},
                "u": timedelta(minutes=5),
            },
        ),
        None,
    ),
    "true": (TrueRuleFilter(), None),
}


@pytest.mark.parametrize("kind", RULES)
def test_a_rule_is_read_as_it_was_written(client: Any, topic: str, kind: str) -> None:
    """SB-A-021"""
    client.create_subscription(topic, "s")
    filter, action = RULES[kind]
    client.create_rule(topic, "s", "mine", filter=filter, action=action)
    rule = client.get_rule(topic, "s", "mine")
    assert type(rule.filter) is type(filter)
    attributes = (
        *("sql_expression", "parameters", "correlation_id", "message_id", "to"),
        *("reply_to", "label", "session_id", "reply_to_session_id", "content_type"),
        "properties",
    )
    for attribute in attributes:
        wanted = getattr(filter, attribute, None)
        assert (getattr(rule.filter, attribute, None) or None) == (wanted or None)
    if action is None:
        assert rule.action is None
    else:
        assert rule.action.sql_expression == action.sql_expression
        assert rule.action.parameters == action.parameters
    client.delete_rule(topic, "s", "mine")
    with pytest.raises(ResourceNotFoundError):
        client.get_rule(topic, "s", "mine")


def test_a_rule_that_takes_nothing(client: Any, topic: str) -> None:
    """SB-A-024 its expression is the service's, which is not the SDK's."""
    client.create_subscription(topic, "s")
    client.create_rule(topic, "s", "none", filter=FalseRuleFilter())
    filter = client.get_rule(topic, "s", "none").filter
    assert (type(filter), filter.sql_expression) == (FalseRuleFilter, "1=0")


def test_a_rule_is_updated(client: Any, topic: str) -> None:
    """SB-A-022"""
    client.create_subscription(topic, "s")
    rule = client.create_rule(topic, "s", "mine", filter=SqlRuleFilter("a = 1"))
    rule.filter = CorrelationRuleFilter(label="x")
    client.update_rule(topic, "s", rule)
    found = client.get_rule(topic, "s", "mine")
    assert found.filter.label == "x"
    with pytest.raises(ResourceExistsError):
        client.create_rule(topic, "s", "mine")
    assert [each.name for each in client.list_rules(topic, "s")] == ["$Default", "mine"]


def test_a_rule_that_is_none(client: Any, topic: str) -> None:
    """SB-A-023"""
    client.create_subscription(topic, "s")
    with pytest.raises(HttpResponseError) as refusal:
        client.create_rule(topic, "s", "r", filter=SqlRuleFilter("a = = 1"))
    assert refusal.value.status_code == 400


# --- the namespace --------------------------------------------------------------


def test_the_namespace_describes_itself(client: Any) -> None:
    """SB-A-030"""
    found = client.get_namespace_properties()
    assert (found.name, found.messaging_sku) == ("twinbus", "Standard")
    assert found.namespace_type == "Messaging"
    assert found.created_at_utc is not None


# --- refusals -------------------------------------------------------------------


@pytest.mark.parametrize(
    "odd",
    [
        "a b",
        "a@b",
        "a!b",
        "-a",
        "a//b",
        "a?b",
        "a#b",
        "\u00e9",
        "$a",
        "a%b",
        "a\\b",
    ],
)
def test_names_of_odd_characters(client: Any, odd: str) -> None:
    """SB-A-040"""
    for create in (client.create_queue, client.create_topic):
        with pytest.raises(HttpResponseError) as refusal:
            create(odd)
        assert refusal.value.status_code in (400, 404)


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        ({"lock_duration": timedelta(days=25)}, "lock_duration"),
        ({"max_delivery_count": 0}, "max_delivery_count"),
        ({"max_size_in_megabytes": 999}, "max_size_in_megabytes"),
        ({"auto_delete_on_idle": timedelta(minutes=1)}, "auto_delete_on_idle"),
        (
            {"duplicate_detection_history_time_window": timedelta(days=8)},
            "duplicate_detection_history_time_window",
        ),
        ({"user_metadata": "x" * 1_025}, "user_metadata"),
        ({"status": "Asleep"}, "status"),
        ({"forward_to": "no-such-queue"}, "forward_to"),
    ],
)
def test_values_out_of_range(
    client: Any, name: str, properties: dict[str, Any], named: str
) -> None:
    """SB-A-041"""
    with pytest.raises(HttpResponseError, match=named) as refusal:
        client.create_queue(name, **properties)
    assert refusal.value.status_code == 400
    with pytest.raises(ResourceNotFoundError):
        client.get_queue(name)


@pytest.mark.parametrize("flag", ["requires_session", "requires_duplicate_detection"])
def test_what_is_decided_at_creation(client: Any, name: str, flag: str) -> None:
    """SB-A-042"""
    queue = client.create_queue(name)
    setattr(queue, flag, True)
    with pytest.raises(HttpResponseError, match=f"SubCode=40301.*{flag}") as refusal:
        client.update_queue(queue)
    assert refusal.value.status_code == 403


def test_an_update_of_what_is_not_there(client: Any, name: str) -> None:
    """SB-A-043"""
    queue = client.create_queue(name)
    client.delete_queue(name)
    with pytest.raises(ResourceNotFoundError):
        client.update_queue(queue)


@pytest.mark.parametrize("claims", [("Send",), ("Listen",), ("Send", "Listen")])
def test_administration_needs_the_manage_claim(
    bus: Bus, client: Any, claims: tuple[str, ...]
) -> None:
    """SB-A-044"""
    weak = type(client)(bus, bus.connection_string_for(*claims))
    try:
        with pytest.raises(ClientAuthenticationError, match="'Manage' claim"):
            weak.list_queues()
    finally:
        weak.close()


def test_a_wrong_key(bus: Bus, client: Any) -> None:
    """SB-A-045"""
    text = bus.connection_string.replace(bus.key, "wrong")
    stranger = type(client)(bus, text)
    try:
        with pytest.raises(ClientAuthenticationError, match="InvalidSignature"):
            stranger.list_queues()
    finally:
        stranger.close()
