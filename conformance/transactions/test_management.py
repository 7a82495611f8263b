"""SB-T-2xx: requests to `$management` take part in a transaction."""

import proton
import pytest

from twinbus.testing import Bus

from .client import Refused
from .management import Management, sequence_numbers, tokens

LOCKED = proton.ulong(1)
SEQUENCE_NUMBER = proton.symbol("x-opt-sequence-number")


@pytest.fixture
def management(client, queue):
    return Management(client, queue)


@pytest.fixture
def deferred_token(client, queue, management):
    """A message that was deferred and is locked again; gives the lock's token."""
    client.sender(queue).send(proton.Message(body="x"))
    received = client.receive(client.receiver(queue))
    received.delivery.local.undeliverable = True
    received.delivery.local.failed = True
    received.delivery.update(proton.Delivery.MODIFIED)
    client.wait(lambda: received.delivery.settled)
    number = received.message.annotations[SEQUENCE_NUMBER]
    response = management.request(
        "receive-by-sequence-number",
        {"sequence-numbers": sequence_numbers(number), "receiver-settle-mode": LOCKED},
    )
    assert response.status == 200
    return response.body["messages"][0]["lock-token"]


def completion(token):
    return {"disposition-status": "completed", "lock-tokens": tokens(token)}


def test_settlement_by_token_is_committed(
    client, queue, management, deferred_token, visible
):
    """SB-T-201 a deferred message is completed in a transaction."""
    transaction = client.declare()
    body = completion(deferred_token)
    assert management.request("update-disposition", body, transaction).status == 200
    assert visible(queue) == ["x"]
    transaction.commit()
    assert visible(queue) == []


def test_settlement_by_token_is_rolled_back(
    client, queue, management, deferred_token, visible
):
    """SB-T-202 and its lock is still held: the same token settles it later."""
    transaction = client.declare()
    body = completion(deferred_token)
    assert management.request("update-disposition", body, transaction).status == 200
    transaction.rollback()
    assert visible(queue) == ["x"]
    assert management.request("update-disposition", body).status == 200
    assert visible(queue) == []


def test_request_in_an_unknown_transaction_is_refused(
    client, queue, management, deferred_token, visible
):
    """SB-T-203 it must not be done outside of the transaction instead."""
    transaction = client.declare()
    transaction.forget_id()
    with pytest.raises(Refused) as refusal:
        management.request(
            "update-disposition", completion(deferred_token), transaction
        )
    assert refusal.value.condition == "amqp:transaction:unknown-id"
    assert visible(queue) == ["x"]


@pytest.fixture
def rules(bus: Bus, client):
    """The management node of a fresh subscription."""
    bus.create_topic("topic")
    bus.create_subscription("topic", "subscription")
    return Management(client, "topic/Subscriptions/subscription")


def rule_names(rules):
    response = rules.request("enumerate-rules", {"top": 100, "skip": 0})
    return [rule["rule-description"].value[2] for rule in response.body["rules"]]


def swap(rules, transaction):
    """Another rule in place of the first one."""
    red = {"sql-filter": {"expression": "colour = 'red'"}, "sql-rule-action": None}
    added = {"rule-name": "red", "rule-description": red}
    removed = {"rule-name": "$Default"}
    assert rules.request("add-rule", added, transaction).status == 200
    assert rules.request("remove-rule", removed, transaction).status == 200


def test_rule_changes_are_committed_together(client, rules):
    """SB-T-204 no message meets one of them without the other."""
    transaction = client.declare()
    swap(rules, transaction)
    assert rule_names(rules) == ["$Default"]
    transaction.commit()
    assert rule_names(rules) == ["red"]


def test_rule_changes_are_rolled_back_together(client, rules):
    """SB-T-205 the rules are what they were."""
    transaction = client.declare()
    swap(rules, transaction)
    transaction.rollback()
    assert rule_names(rules) == ["$Default"]
