"""SB-Q-17xx: authorization rules by the SDK's administration client, and their keys."""

from collections.abc import Iterator
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import (
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
)
from azure.servicebus.management import AccessRights, AuthorizationRule

from twinbus.testing import Bus

from .administration import SyncAdministration
from .inspection import inside
from .sdk import SyncSdk, receive_one, settings_of, text_of

REFUSED = (ServiceBusAuthenticationError, ServiceBusAuthorizationError)


@pytest.fixture(scope="module")
def bus(new_bus: Any) -> Iterator[Bus]:
    with new_bus(tls=True) as running:
        yield running


@pytest.fixture
def admin(bus: Bus) -> Iterator[SyncAdministration]:
    client = SyncAdministration(bus)
    yield client
    client.close()


def rule(name: str, *rights: AccessRights, key: str = "first key") -> AuthorizationRule:
    return AuthorizationRule(
        type="SharedAccessAuthorizationRule",
        claim_type="SharedAccessKey",
        claim_value="None",
        rights=list(rights),
        key_name=name,
        primary_key=key,
        secondary_key=f"second of {key}",
    )


def client_of(sdk: SyncSdk, name: str, key: str) -> Any:
    changed = {
        **settings_of(sdk.bus.connection_string),
        "SharedAccessKeyName": name,
        "SharedAccessKey": key,
    }
    return sdk.client(";".join(f"{part}={value}" for part, value in changed.items()))


def send(sdk: SyncSdk, entity: str, name: str, key: str, kind: str = "queue") -> None:
    client = client_of(sdk, name, key)
    opened = getattr(client, f"get_{kind}_sender")(entity)
    with opened:
        opened.send_messages(ServiceBusMessage("x"))


def test_rules_of_a_queue_are_read_and_changed(
    admin: SyncAdministration, sync_sdk: SyncSdk
) -> None:
    """SB-Q-1701 by create_queue and update_queue; the keys work at once."""
    name = "ruled-queue"
    admin.create_queue(name, authorization_rules=[rule("shop", AccessRights.SEND)])
    send(sync_sdk, name, "shop", "first key")
    send(sync_sdk, name, "shop", "second of first key")
    found = admin.get_queue(name)
    (kept,) = found.authorization_rules
    assert (kept.key_name, kept.primary_key) == ("shop", "first key")
    assert kept.rights == [AccessRights.SEND]
    kept.primary_key = "another key"
    admin.update_queue(found)
    with pytest.raises(REFUSED):
        send(sync_sdk, name, "shop", "first key")
    send(sync_sdk, name, "shop", "another key")
    send(sync_sdk, name, "shop", "second of first key")


def test_rules_of_a_topic_open_its_subscriptions(
    admin: SyncAdministration, sync_sdk: SyncSdk
) -> None:
    """SB-Q-1702 and no other entity."""
    rules = [rule("reader", AccessRights.LISTEN), rule("writer", AccessRights.SEND)]
    admin.create_topic("ruled-topic", authorization_rules=rules)
    admin.create_subscription("ruled-topic", "all")
    admin.create_queue("ruled-topic-2")
    send(sync_sdk, "ruled-topic", "writer", "first key", "topic")
    reader = client_of(sync_sdk, "reader", "first key")
    with reader.get_subscription_receiver("ruled-topic", "all") as receiver:
        assert text_of(receive_one(receiver)) == "x"
    with pytest.raises(ServiceBusAuthorizationError, match="Send"):
        send(sync_sdk, "ruled-topic", "reader", "first key", "topic")
    with pytest.raises(REFUSED):
        send(sync_sdk, "ruled-topic-2", "writer", "first key")


def test_manage_key_of_an_entity_manages_that_one(
    bus: Bus, admin: SyncAdministration
) -> None:
    """SB-Q-1703 it may read and change it, and not what is beside it."""
    owner = rule("owner", AccessRights.MANAGE, AccessRights.SEND, AccessRights.LISTEN)
    admin.create_queue("owned", authorization_rules=[owner])
    admin.create_queue("not-owned")
    settings = settings_of(bus.connection_string)
    text = ";".join(
        f"{name}={value}"
        for name, value in {
            **settings,
            "SharedAccessKeyName": "owner",
            "SharedAccessKey": "first key",
        }.items()
    )
    mine = SyncAdministration(bus, text)
    try:
        found = mine.get_queue("owned")
        found.max_delivery_count = 7
        mine.update_queue(found)
        for attempt in (
            lambda: mine.get_queue("not-owned"),
            lambda: mine.create_queue("new"),
            lambda: mine.delete_queue("not-owned"),
            lambda: mine.list_queues(),
        ):
            with pytest.raises(HttpResponseError) as refused:
                attempt()
            assert refused.value.status_code == 401
    finally:
        mine.close()
    assert admin.get_queue("owned").max_delivery_count == 7


def test_thirteen_rules_are_too_many(admin: SyncAdministration) -> None:
    """SB-Q-1704 twelve is the documented quota."""
    rules = [rule(f"rule-{number}", AccessRights.SEND) for number in range(13)]
    with pytest.raises(HttpResponseError) as refused:
        admin.create_queue("crowded", authorization_rules=rules)
    assert refused.value.status_code == 403
    admin.create_queue("crowded", authorization_rules=rules[:12])
    assert len(admin.get_queue("crowded").authorization_rules) == 12


@inside
def test_rules_survive_a_restart(new_bus: Any) -> None:
    """SB-Q-1705 those of the namespace, too."""
    with new_bus() as bus:
        shop = {"key_name": "shop", "primary_key": "first key", "rights": ["Send"]}
        bus.create_queue("kept", authorization_rules=[shop])
        made = bus._run(bus.server.namespace.keys.create("", "all-over", ["Send"]))
        bus.restart()
        sdk = SyncSdk(bus)
        send(sdk, "kept", "shop", "first key")
        send(sdk, "kept", "all-over", made.primary_key)
        sdk.close()
