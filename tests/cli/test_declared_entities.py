"""`twinbus serve` with entities in the configuration, as the SDK sees them."""

import json
from pathlib import Path

from azure.servicebus import ServiceBusClient, ServiceBusMessage

from twinbus.cli import exit_codes

from .command import Serving, run

FREE = ("--port", "0", "--http-port", "0", "--tls-port", "0")

FILE = """
[topics.events.subscriptions.archive]
forward_to = "kept"

[[topics.events.subscriptions.billing.rules]]
name = "large"
sql_filter = "amount > @limit"
parameters = { limit = 100 }
action = "SET priority = 'high'"

[[topics.events.subscriptions.billing.rules]]
name = "refund"
correlation_filter = { label = "refund" }

[queues.kept]
"""


def publish(client: ServiceBusClient) -> None:
    with client.get_topic_sender("events") as sender:
        for name, amount in (("coffee", 3), ("machine", 300)):
            properties: dict[str | bytes, object] = {"amount": amount}
            sender.send_messages(
                ServiceBusMessage(name, application_properties=properties)
            )
        sender.send_messages(ServiceBusMessage("sorry", subject="refund"))


def billed(client: ServiceBusClient, count: int) -> list[tuple[str, object]]:
    """What the subscription got, and the priority that its rules gave it."""
    with client.get_subscription_receiver("events", "billing") as receiver:
        found = []
        for message in receiver.receive_messages(count, max_wait_time=20):
            properties = message.application_properties or {}
            found.append((str(message), properties.get(b"priority")))
            receiver.complete_message(message)
        return found


def kept(client: ServiceBusClient, count: int) -> list[str]:
    found: list[str] = []
    with client.get_queue_receiver("kept") as receiver:
        while len(found) < count:
            messages = receiver.receive_messages(count, max_wait_time=20)
            assert messages, f"only {found} arrived"
            found += [str(message) for message in messages]
    return found


def test_topics_rules_and_forwarding_work_as_the_file_says(tmp_path: Path) -> None:
    file = tmp_path / "bus.toml"
    file.write_text(FILE)
    with Serving("--config", file, *FREE, cwd=tmp_path) as server:
        client = ServiceBusClient.from_connection_string(server.connection_string)
        with client:
            publish(client)
            assert billed(client, 2) == [("machine", b"high"), ("sorry", None)]
            assert kept(client, 3) == ["coffee", "machine", "sorry"]
        assert server.stop() == exit_codes.OK
    file.write_text(FILE.replace("limit = 100", "limit = 1"))
    with Serving("--config", file, *FREE, cwd=tmp_path) as server:
        client = ServiceBusClient.from_connection_string(server.connection_string)
        with client:
            publish(client)
            assert [name for name, _ in billed(client, 3)] == [
                *("coffee", "machine", "sorry")
            ]


def test_the_emulators_topics_work_too(tmp_path: Path) -> None:
    rule = {
        "Name": "large",
        "Properties": {
            "FilterType": "Sql",
            "SqlFilter": {"SqlExpression": "amount > 100"},
            "Action": {"SqlExpression": "SET priority = 'high'"},
        },
    }
    billing = {"Name": "billing", "Rules": [rule]}
    topic = {"Name": "events", "Subscriptions": [billing]}
    namespace = {"Name": "sbemulatorns", "Queues": [], "Topics": [topic]}
    document = {"UserConfig": {"Namespaces": [namespace], "Logging": {"Type": "File"}}}
    (tmp_path / "Config.json").write_text(json.dumps(document))
    with Serving("--config", "Config.json", *FREE, cwd=tmp_path) as server:
        client = ServiceBusClient.from_connection_string(server.connection_string)
        with client:
            publish(client)
            assert billed(client, 1) == [("machine", b"high")]


def test_what_cannot_be_changed_is_told_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "bus.toml"
    file.write_text("[queues.orders]\n")
    with Serving("--config", file, *FREE, cwd=tmp_path) as server:
        server.stop()
    file.write_text("[queues.orders]\nrequires_session = true\n")
    ended = run("serve", "--config", "bus.toml", *FREE, cwd=tmp_path)
    assert ended.returncode == exit_codes.USAGE
    assert ended.stderr.startswith(
        "twinbus: bus.toml: queue 'orders': Property 'requires_session' of 'orders' is "
        "False and cannot be changed to True"
    )
    assert len(ended.stderr.splitlines()) == 1
