"""The vendor's preparers, run on the shim, ask for the right things in order."""

import asyncio
import os

import pytest
import servicebus_preparer as vendor
from azure.mgmt.servicebus.models import AccessRights
from sb_env_loader import ServiceBusPreparer
from utilities import ArgPasser, ArgPasserAsync

PREFIX = "servicebustest"
GROUP = vendor.CachedServiceBusResourceGroupPreparer(name_prefix=PREFIX)
NAMESPACE = vendor.CachedServiceBusNamespacePreparer(name_prefix=PREFIX)


def steps(namespace):
    return [(request.method, request.path) for request in namespace.requests]


class Prepared:
    """Tests as the vendor writes them, which keep what they were handed."""

    @GROUP
    @NAMESPACE
    @vendor.ServiceBusQueuePreparer(
        name_prefix=PREFIX,
        requires_session=True,
        requires_duplicate_detection=True,
        dead_lettering_on_message_expiration=True,
        lock_duration="PT10S",
    )
    @ArgPasser()
    def queue(self, uamqp_transport, *, servicebus_queue=None, **kwargs):
        self.name, self.arguments = servicebus_queue.name, kwargs

    @GROUP
    @NAMESPACE
    @vendor.CachedServiceBusQueuePreparer(name_prefix=PREFIX)
    @ArgPasserAsync()
    async def failing(self, uamqp_transport, *, servicebus_queue=None, **kwargs):
        self.name = servicebus_queue.name
        raise KeyError("the test fails")

    @GROUP
    @NAMESPACE
    @vendor.ServiceBusTopicPreparer(name_prefix=PREFIX)
    @vendor.ServiceBusSubscriptionPreparer(
        name_prefix=PREFIX, requires_session=True, lock_duration="PT5S"
    )
    @ArgPasser()
    def subscription(self, uamqp_transport, **kwargs):
        self.topic = kwargs["servicebus_topic"].name
        self.name = kwargs["servicebus_subscription"].name

    @GROUP
    @NAMESPACE
    @vendor.ServiceBusQueuePreparer(name_prefix=PREFIX)
    @vendor.ServiceBusNamespaceAuthorizationRulePreparer(
        name_prefix=PREFIX, access_rights=[AccessRights.listen]
    )
    @ArgPasser()
    def namespace_rule(self, uamqp_transport, **kwargs):
        name = "servicebus_authorization_rule_connection_string"
        self.connection_string = kwargs[name]

    @GROUP
    @NAMESPACE
    @vendor.ServiceBusQueuePreparer(name_prefix=f"{PREFIX}_qtwo")
    @vendor.ServiceBusQueueAuthorizationRulePreparer(name_prefix=f"{PREFIX}_qtwo")
    @ArgPasser()
    def queue_rule(self, uamqp_transport, **kwargs):
        name = "servicebus_queue_authorization_rule_connection_string"
        self.connection_string = kwargs[name]

    @ServiceBusPreparer()
    def variables(self, servicebus_fully_qualified_namespace, servicebus_sas_key):
        self.values = (servicebus_fully_qualified_namespace, servicebus_sas_key)


@pytest.fixture
def prepared(namespace):
    return Prepared()


def test_a_queue_is_made_before_the_test_and_deleted_after(namespace, prepared):
    prepared.queue(uamqp_transport=False)
    assert steps(namespace) == [("PUT", prepared.name), ("DELETE", prepared.name)]


def test_a_queue_has_the_options_that_were_asked_for(namespace, prepared):
    prepared.queue(uamqp_transport=False)
    made = namespace.requests[0]
    wanted = {
        "RequiresSession": "true",
        "RequiresDuplicateDetection": "true",
        "DeadLetteringOnMessageExpiration": "true",
        "LockDuration": "PT10S",
    }
    assert made.kind == "QueueDescription"
    assert wanted.items() <= made.options.items()


def test_the_namespace_is_the_server_under_test(prepared):
    prepared.queue(uamqp_transport=False)
    arguments = prepared.arguments
    assert arguments["servicebus_namespace"].name == "localhost:5999"
    assert arguments["servicebus_namespace_key_name"] == "Root"
    wanted = os.environ["SB_CONNECTION_STRING"]
    assert arguments["servicebus_namespace_connection_string"] == wanted


def test_a_failing_test_leaves_no_queue(namespace, prepared):
    with pytest.raises(KeyError):
        asyncio.run(prepared.failing(uamqp_transport=False))
    assert steps(namespace) == [("PUT", prepared.name), ("DELETE", prepared.name)]


def test_a_subscription_is_made_after_its_topic_and_goes_before(namespace, prepared):
    prepared.subscription(uamqp_transport=False)
    topic, path = prepared.topic, f"{prepared.topic}/subscriptions/{prepared.name}"
    assert steps(namespace) == [
        ("PUT", topic),
        ("PUT", path),
        ("DELETE", path),
        ("DELETE", topic),
    ]
    options = namespace.requests[1].options
    assert (options["RequiresSession"], options["LockDuration"]) == ("true", "PT5S")


def test_a_rule_of_the_namespace_is_put_on_the_queue(namespace, prepared):
    prepared.namespace_rule(uamqp_transport=False)
    assert [method for method, _ in steps(namespace)] == ["PUT", "GET", "PUT", "DELETE"]
    update = namespace.requests[2]
    assert (update.rights, update.if_match) == (["Listen"], "*")
    assert f"SharedAccessKeyName={PREFIX}" in prepared.connection_string
    assert "EntityPath" not in prepared.connection_string


def test_a_rule_of_a_queue_names_the_queue(namespace, prepared):
    prepared.queue_rule(uamqp_transport=False)
    assert sorted(namespace.requests[2].rights) == ["Listen", "Manage", "Send"]
    assert f"EntityPath={namespace.requests[0].path}" in prepared.connection_string


def test_variables_of_the_pipeline_are_those_of_the_server(prepared):
    prepared.variables()
    assert prepared.values == ("localhost:5999", "c2VjcmV0")
