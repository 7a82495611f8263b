"""SB-M Metrics of a bus in use."""

import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage
from prometheus_client.parser import text_string_to_metric_families

from twinbus.config.pair import PairConfig
from twinbus.testing import Bus

from .sdk import SyncSdk, eventually, receive_one, settings_of

pytestmark = pytest.mark.differs(
    "brokers", row="no row", why="figures are those of the broker that answers"
)


@pytest.fixture(scope="module")
def bus(new_bus: Callable[..., Any]) -> Iterator[Bus]:
    with new_bus() as running:
        yield running


def page(bus: Bus, connection_string: str, query: str = "") -> str:
    parts = settings_of(connection_string)
    proof = f"{parts['SharedAccessKeyName']}:{parts['SharedAccessKey']}"
    request = urllib.request.Request(f"http://localhost:{bus.port}/metrics{query}")
    request.add_header("Authorization", "Basic " + b64encode(proof.encode()).decode())
    with urllib.request.urlopen(request, timeout=20) as response:
        text: str = response.read().decode()
        return text


def value(text: str, name: str, **labels: str) -> float:
    [found] = (
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )
    return found


def test_figures_are_those_of_the_entities(bus: Bus, sync_sdk: SyncSdk) -> None:
    """SB-M-1"""
    bus.create_queue("orders")
    before = value(page(bus, bus.connection_string), "twinbus_commits_total")
    sender, receiver = sync_sdk.sender("orders"), sync_sdk.receiver("orders")
    for text in ("dead", "deferred", "active"):
        sender.send_messages(ServiceBusMessage(text))
    receiver.dead_letter_message(receive_one(receiver))
    receiver.defer_message(receive_one(receiver))
    text = page(bus, bus.connection_string)
    for state in ("active", "deferred", "dead_letter"):
        labels = {"entity": "orders", "kind": "queue", "state": state}
        assert value(text, "twinbus_entity_messages", **labels) == 1
        assert value(text, "twinbus_messages", state=state) == 1
    assert value(text, "twinbus_entity_enqueued_total", entity="orders") == 3
    assert value(text, "twinbus_entity_size_bytes", entity="orders") > 0
    assert value(text, "twinbus_connections") >= 2
    assert value(text, "twinbus_commits_total") > before


def test_topics_and_subscriptions_have_figures(bus: Bus) -> None:
    """SB-M-2"""
    bus.create_topic("events")
    bus.create_subscription("events", "all")
    text = page(bus, bus.connection_string)
    kinds = {"events": "topic", "events/Subscriptions/all": "subscription"}
    for path, kind in kinds.items():
        assert value(text, "twinbus_entity_size_bytes", entity=path, kind=kind) == 0
    assert value(text, "twinbus_entities", kind="topic") == 1
    alone = page(bus, bus.connection_string, "?entities=0")
    assert "twinbus_entity_" not in alone


def test_metrics_need_the_listen_claim(bus: Bus) -> None:
    """SB-M-3"""
    assert page(bus, bus.connection_string_for("Listen"))
    with pytest.raises(urllib.error.HTTPError) as refused:
        page(bus, bus.connection_string_for("Send"))
    assert refused.value.code == 401
    refused.value.close()


def test_a_queue_may_be_called_metrics(bus: Bus) -> None:
    """SB-M-4"""
    bus.create_queue("metrics")
    text = page(bus, bus.connection_string)
    assert value(text, "twinbus_entity_size_bytes", entity="metrics") == 0


def test_a_server_that_runs_the_syphon_counts_what_it_does(bus: Bus) -> None:
    """SB-M-5, P13"""
    bus.create_queue("home")
    primary = bus.connection_string
    pair = PairConfig(primary=primary, primary_name="site-a", backlog_queue_count=1)
    path = "site-a/x-servicebus-transfer/0"
    with Bus(settings={"pair": pair}) as secondary:
        sdk = SyncSdk(secondary)
        properties = {"x-ms-path": "home"}
        message = ServiceBusMessage("back", application_properties=properties)
        sdk.sender(path).send_messages(message)

        def is_restored() -> bool:
            text = page(secondary, secondary.connection_string)
            return 'restored_messages_total{entity="home",primary="site-a"} 1.0' in text

        eventually(is_restored, "the message is counted")
        text = page(secondary, secondary.connection_string)
        name = "twinbus_pair_syphon_received_messages_total"
        assert value(text, name, queue=path, primary="site-a") == 1
        sdk.close()
