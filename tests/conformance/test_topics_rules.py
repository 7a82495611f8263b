"""SB-T-03xx: rules of subscriptions: when they apply, actions, filters that fail.

All rules without an action together give one copy; each matching rule with an action
gives its own copy, with the property `RuleName`.
"""

from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.management import (
    CorrelationRuleFilter,
    ServiceBusAdministrationClient,
    SqlRuleAction,
    SqlRuleFilter,
    TrueRuleFilter,
)

from twinbus.errors import EntityAlreadyExists, MessagingEntityNotFound
from twinbus.rules.filters import TrueFilter
from twinbus.rules.sql.rule_checks import check_rule, sql_action, sql_filter

from .sdk import SyncSdk, texts_of

DEFAULT = "$Default"


def _rule(name, text="1 = 1", action=None):
    return check_rule(name, sql_filter(text), action and sql_action(action), 0)


@pytest.fixture
def topic(bus, make_topic):
    """A topic with one subscription `s`, which has the default rule."""
    name = make_topic()
    bus.create_subscription(name, "s")
    return name


@pytest.fixture
def subscribed(bus, make_topic):
    """Makes a topic with a subscription `s` of these rules."""

    def make(*rules, **settings):
        name = make_topic()
        bus.create_subscription(name, "s", list(rules), **settings)
        return name

    return make


def _send(sdk, topic, text="x", subject=None, **properties):
    message = ServiceBusMessage(
        text, subject=subject, application_properties=properties
    )
    sdk.topic_sender(topic).send_messages(message)


def _peek(sdk, topic, subscription="s"):
    return sdk.subscription_receiver(topic, subscription).peek_messages(50)


def _held(sdk, topic, subscription="s"):
    return texts_of(_peek(sdk, topic, subscription))


def _properties(message):
    return {
        _text(name): _text(value)
        for name, value in (message.application_properties or {}).items()
    }


def _text(value):
    return value.decode() if isinstance(value, bytes) else value


# --- which rules hold -------------------------------------------------------------


def test_rule_given_at_creation_takes_the_place_of_the_default(sync_sdk, subscribed):
    """SB-T-0301 with a rule at creation there is no rule that takes everything."""
    topic = subscribed(_rule("reds", "color = 'red'"))
    _send(sync_sdk, topic, "r", color="red")
    _send(sync_sdk, topic, "b", color="blue")
    assert _held(sync_sdk, topic) == ["r"]


def test_rule_added_later_counts_from_then_on(sync_sdk, bus, subscribed):
    """SB-T-0302 a rule selects messages sent after it, none sent before."""
    topic = subscribed(_rule("reds", "color = 'red'"))
    _send(sync_sdk, topic, "early", color="blue")
    bus.add_rule(topic, "s", _rule("blues", "color = 'blue'"))
    _send(sync_sdk, topic, "late", color="blue")
    assert _held(sync_sdk, topic) == ["late"]


def test_removed_rule_ends_and_takes_nothing_back(sync_sdk, bus, topic):
    """SB-T-0303 without its rule nothing new comes; what had come stays."""
    _send(sync_sdk, topic, "before")
    bus.remove_rule(topic, "s", DEFAULT)
    _send(sync_sdk, topic, "after")
    assert _held(sync_sdk, topic) == ["before"]


def test_subscription_without_rules_gets_nothing(sync_sdk, subscribed):
    """SB-T-0304 no rule, no message."""
    topic = subscribed()
    _send(sync_sdk, topic)
    assert _held(sync_sdk, topic) == []


def test_several_rules_without_action_give_one_copy(sync_sdk, subscribed):
    """SB-T-0305 rules without an action are joined by OR."""
    topic = subscribed(
        _rule("one", "n > 0"), _rule("two", "n > 1"), _rule("three", "n < 0")
    )
    for n in (-1, 0, 1, 2):
        _send(sync_sdk, topic, str(n), n=n)
    assert _held(sync_sdk, topic) == ["-1", "1", "2"]


def test_rules_of_one_subscription_do_not_concern_another(sync_sdk, bus, topic):
    """SB-T-0306 each subscription goes by its own rules."""
    bus.create_subscription(topic, "red", [_rule("r", "color = 'red'")])
    _send(sync_sdk, topic, color="blue")
    assert _held(sync_sdk, topic) == ["x"]
    assert _held(sync_sdk, topic, "red") == []


def test_name_of_a_rule_is_taken_once(bus, topic):
    """SB-T-0307 a second rule of a name is refused, and so is removing none."""
    bus.add_rule(topic, "s", _rule("r"))
    with pytest.raises(EntityAlreadyExists):
        bus.add_rule(topic, "s", _rule("R"))
    with pytest.raises(MessagingEntityNotFound):
        bus.remove_rule(topic, "s", "nobody")


# --- actions ----------------------------------------------------------------------


def test_action_sets_and_removes_properties_of_its_copy(sync_sdk, bus, topic):
    """SB-T-0311 SET creates and replaces, REMOVE removes; in this copy only."""
    action = "SET priority = 'high'; SET n = n + 1; REMOVE secret"
    bus.create_subscription(topic, "changed", [_rule("mark", action=action)])
    _send(sync_sdk, topic, "x", n=1, secret="s", kept=True)
    (changed,) = _peek(sync_sdk, topic, "changed")
    assert _properties(changed) == {
        **{"priority": "high", "n": 2, "kept": True},
        "RuleName": "mark",
    }
    assert texts_of([changed]) == ["x"]
    (plain,) = _peek(sync_sdk, topic)
    assert _properties(plain) == {"n": 1, "secret": "s", "kept": True}


def test_action_sets_system_properties(sync_sdk, subscribed):
    """SB-T-0312 label, reply-to, correlation id and more may be set."""
    action = (
        "SET sys.Label = 'new'; SET sys.CorrelationId = 'c' + sys.MessageId; "
        "SET sys.ReplyTo = 'me'; REMOVE sys.To"
    )
    topic = subscribed(_rule("r", action=action))
    message = ServiceBusMessage("x", message_id="m", subject="old", to="t")
    sync_sdk.topic_sender(topic).send_messages(message)
    (changed,) = _peek(sync_sdk, topic)
    assert (changed.subject, changed.correlation_id) == ("new", "cm")
    assert (changed.reply_to, changed.to) == ("me", None)
    assert changed.message_id == "m"


def test_every_rule_with_an_action_gives_a_copy(sync_sdk, subscribed):
    """SB-T-0313 two matching rules with actions and two without: three copies."""
    topic = subscribed(
        _rule("plain"),
        _rule("plain-too"),
        _rule("one", action="SET n = 1"),
        _rule("two", action="SET n = 2"),
        _rule("other", "1 = 0", action="SET n = 3"),
    )
    _send(sync_sdk, topic)
    copies = [_properties(message) for message in _peek(sync_sdk, topic)]
    named = {copy.get("RuleName"): copy.get("n") for copy in copies}
    assert len(copies) == 3
    assert named == {None: None, "one": 1, "two": 2}


def test_copies_of_actions_are_messages_of_their_own(sync_sdk, subscribed):
    """SB-T-0314 each copy of an action has a number and is settled by itself."""
    topic = subscribed(
        _rule("one", action="SET n = 1"), _rule("two", action="SET n = 2")
    )
    _send(sync_sdk, topic)
    receiver = sync_sdk.subscription_receiver(topic, "s")
    first, second = receiver.receive_messages(2, max_wait_time=10)
    assert {first.sequence_number, second.sequence_number} == {1, 2}
    receiver.complete_message(first)
    (left,) = _peek(sync_sdk, topic)
    assert left.sequence_number == second.sequence_number


def test_filter_sees_what_was_sent_not_what_an_action_made(sync_sdk, bus, topic):
    """SB-T-0315 an action of one rule does not make another rule match."""
    bus.remove_rule(topic, "s", DEFAULT)
    bus.add_rule(topic, "s", _rule("a", action="SET n = 5"))
    bus.add_rule(topic, "s", _rule("b", "n = 5"))
    _send(sync_sdk, topic)
    assert len(_peek(sync_sdk, topic)) == 1


# --- filters that fail ------------------------------------------------------------


FAILING = _rule("failing", "sys.NoSuchProperty = 1")


def test_failing_filter_dead_letters_the_message(sync_sdk, bus, topic):
    """SB-T-0321 a filter that cannot be evaluated puts the message into the dead
    letters of its subscription, with the reason; the others get it."""
    bus.create_subscription(topic, "f", [FAILING])
    _send(sync_sdk, topic, "x", n=1)
    assert _held(sync_sdk, topic) == ["x"]
    assert _held(sync_sdk, topic, "f") == []
    (dead,) = sync_sdk.subscription_dead_letters(topic, "f").peek_messages(5)
    assert texts_of([dead]) == ["x"]
    assert "Filter" in dead.dead_letter_reason
    assert "nosuchproperty" in dead.dead_letter_error_description.lower()


def test_failing_filter_may_drop_the_message_instead(sync_sdk, subscribed):
    """SB-T-0322 without DeadLetteringOnFilterEvaluationExceptions it matches not."""
    topic = subscribed(FAILING, dead_lettering_on_filter_evaluation_exceptions=False)
    _send(sync_sdk, topic)
    assert _held(sync_sdk, topic) == []
    assert sync_sdk.subscription_dead_letters(topic, "s").peek_messages(5) == []


def test_failing_filter_does_not_hide_another_rule(sync_sdk, subscribed):
    """SB-T-0323 another rule of the subscription still selects the message."""
    topic = subscribed(FAILING, check_rule("all", TrueFilter(), None, 0))
    _send(sync_sdk, topic)
    assert _held(sync_sdk, topic) == ["x"]


# --- over the administration client -----------------------------------------------


@pytest.fixture(scope="module")
def administered(new_bus):
    """A bus with TLS, the administration client, and the SDK's other half."""
    with new_bus(tls=True) as bus:
        client = ServiceBusAdministrationClient.from_connection_string(
            bus.connection_string, connection_verify=str(bus.ca_file), retry_total=0
        )
        sdk = SyncSdk(bus)
        client.create_topic("t")
        yield client, sdk
        sdk.close()
        client.close()


def test_rules_of_the_administration_client_select(administered):
    """SB-T-0331 created, replaced and deleted rules hold for the next message."""
    client, sdk = administered
    client.create_subscription("t", "a")
    client.delete_rule("t", "a", DEFAULT)
    wanted = SqlRuleFilter("n = @n", parameters={"@n": 1})
    rule = client.create_rule("t", "a", "r", filter=wanted)
    _send(sdk, "t", "1", n=1)
    rule.filter = SqlRuleFilter("n = 2")
    client.update_rule("t", "a", rule)
    _send(sdk, "t", "not", n=1)
    _send(sdk, "t", "2", n=2)
    client.delete_rule("t", "a", "r")
    _send(sdk, "t", "not", n=2)
    assert _held(sdk, "t", "a") == ["1", "2"]


def test_actions_of_the_administration_client(administered):
    """SB-T-0332 an action with parameters changes the copy."""
    client, sdk = administered
    client.create_subscription("t", "b")
    client.create_rule(
        "t",
        "b",
        "act",
        filter=TrueRuleFilter(),
        action=SqlRuleAction("SET v = @v", parameters={"@v": 7}),
    )
    _send(sdk, "t")
    copies = [_properties(message) for message in _peek(sdk, "t", "b")]
    assert sorted(copies, key=len) == [{}, {"v": 7, "RuleName": "act"}]


def test_correlation_rule_of_the_administration_client(administered):
    """SB-T-0333 a correlation filter of the administration client selects."""
    client, sdk = administered
    client.create_subscription("t", "c")
    client.delete_rule("t", "c", DEFAULT)
    wanted = CorrelationRuleFilter(label="alarm", properties={"n": 1})
    client.create_rule("t", "c", "r", filter=wanted)
    _send(sdk, "t", "both", subject="alarm", n=1)
    _send(sdk, "t", "one", subject="alarm", n=2)
    _send(sdk, "t", "other", n=1)
    assert _held(sdk, "t", "c") == ["both"]


def test_counts_of_a_subscription(administered):
    """SB-T-0334 runtime properties count the copies of the subscription, by place."""
    client, sdk = administered
    client.create_subscription("t", "d", lock_duration=timedelta(minutes=5))
    for text in ("1", "2", "3"):
        _send(sdk, "t", text)
    receiver = sdk.subscription_receiver("t", "d")
    (first,) = receiver.receive_messages(1, max_wait_time=10)
    receiver.dead_letter_message(first)
    counts = client.get_subscription_runtime_properties("t", "d")
    assert (counts.active_message_count, counts.dead_letter_message_count) == (2, 1)
    assert counts.total_message_count == 3
