"""The visible state of a pair: callbacks, status and log lines. P5 to P12."""

import logging

import pytest
from prometheus_client import CollectorRegistry

from twinbus.pairing.events import EventKind, PairEvent
from twinbus.pairing.metrics import PairMetrics

from .harness_audit import eventually
from .harness_world import World, message, numbered


def _entity(client: object, path: str) -> object:
    status = client.status()  # type: ignore[attr-defined]
    (found,) = [one for one in status.entities if one.path == path]
    return found


async def test_the_status_tells_what_each_entity_does(world: World) -> None:
    """P5: state, failovers, diverted messages, pings and the last failure."""
    queue = world.queue()
    client = await world.pair()
    sender = client.get_queue_sender(queue)
    await sender.send_messages(message("before"))
    healthy = _entity(client, queue)
    assert (healthy.failovers, healthy.diverted, healthy.pings) == (0, 0, 0)
    world.way.refuse()
    await sender.send_messages(numbered("m", 3))
    await world.hears(EventKind.PINGED, queue)
    failed = _entity(client, queue)
    assert failed.state != healthy.state
    assert (failed.failovers, failed.diverted) == (1, 3)
    assert failed.pings >= 1
    assert failed.last_failure
    world.way.heal()
    await eventually(
        lambda: _entity(client, queue).state != failed.state, "the way back"
    )
    await sender.send_messages(message("after"))
    again = _entity(client, queue)
    assert again.state == healthy.state
    assert again.failovers == 1


async def test_the_status_names_both_sides_and_the_backlog_queues(
    world: World,
) -> None:
    """P3, P8: and those that are out of rotation."""
    queue = world.queue()
    client = await world.pair(backlog_retry_interval=30)
    status = client.status()
    assert sorted(status.backlog_queues) == [world.backlog_path(n) for n in (0, 1)]
    assert status.out_of_rotation == ()
    assert status.primary and status.secondary
    assert status.primary != status.secondary
    world.way.refuse()
    world.secondary.set_status(world.backlog_path(0), "SendDisabled")
    while not client.status().out_of_rotation:
        await client.get_queue_sender(queue).send_messages(message("m"))
    assert client.status().out_of_rotation == (world.backlog_path(0),)


async def test_callbacks_tell_the_story(world: World) -> None:
    """P6, P8, P11, P12: state changes, diverted, pinged, restored; in this order."""
    queue = world.queue()
    client = await world.pair(backlog_queue_count=1, enable_syphon=True)
    world.way.refuse()
    await client.get_queue_sender(queue).send_messages(numbered("m", 4))
    await world.hears(EventKind.PINGED, queue)
    world.way.heal()
    await world.backlog_has(0)
    await world.hears(EventKind.RESTORED)
    # Suspect, failed over, recovering.
    await world.hears(EventKind.STATE_CHANGED, queue, 3)
    diverted = world.told(EventKind.DIVERTED, queue)
    assert sum(one.count for one in diverted) == 4
    assert {one.queue for one in diverted} == {world.backlog_path(0)}
    restored = [one for one in world.told(EventKind.RESTORED) if one.path == queue]
    assert sum(one.count for one in restored) == 4
    kinds = [one.kind for one in world.events]
    assert kinds.index(EventKind.STATE_CHANGED) < kinds.index(EventKind.DIVERTED)
    assert kinds.index(EventKind.DIVERTED) < kinds.index(EventKind.RESTORED)
    states = [one.text for one in world.told(EventKind.STATE_CHANGED, queue)]
    assert states[:3] == ["suspect", "failed over", "recovering"]


async def test_a_callback_that_fails_fails_no_send(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """P8: it is logged, and the send goes on."""
    queue = world.queue()

    def fail(event: PairEvent) -> None:
        raise RuntimeError(f"listener: {event.kind}")

    client = await world.pair(on_event=fail)
    world.way.refuse()
    await client.get_queue_sender(queue).send_messages(message("during"))
    assert len(await world.backlog()) == 1
    assert "listener: " in caplog.text


async def test_log_lines_tell_of_failover_and_recovery(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """P6, P11: an operator learns of both, and of which entity."""
    queue = world.queue()
    caplog.set_level(logging.INFO, logger="twinbus")
    client = await world.pair()
    sender = client.get_queue_sender(queue)
    world.way.refuse()
    await sender.send_messages(message("during"))

    def lines() -> list[str]:
        return [
            record.getMessage()
            for record in caplog.records
            if record.name.startswith("twinbus") and queue in record.getMessage()
        ]

    assert lines(), "nothing was logged of the failover"
    count = len(lines())
    world.way.heal()
    await eventually(lambda: len(lines()) > count, "a line about the recovery")
    secrets = [one.getMessage() for one in caplog.records]
    assert not [line for line in secrets if "SharedAccessKey=" in line]


async def test_metrics_count_what_a_pair_did(world: World) -> None:
    """P8, P11, P12, P13: failovers, diverted, pings, restored, and the state."""
    queue = world.queue()
    registry = CollectorRegistry()
    told = PairMetrics(registry).of(world.name)

    def listen(event: PairEvent) -> None:
        world.events.append(event)
        told(event)

    def value(name: str, **labels: str) -> float:
        labels = {"primary": world.name, "entity": queue, **labels}
        return registry.get_sample_value(f"twinbus_pair_{name}", labels) or 0.0

    client = await world.pair(enable_syphon=True, on_event=listen)
    sender = client.get_queue_sender(queue)
    await sender.send_messages(message("before"))
    assert value("diverted_messages_total") == 0
    world.way.refuse()
    await sender.send_messages(numbered("m", 3))
    await world.hears(EventKind.PINGED, queue)
    assert value("failovers_total") == 1
    assert value("diverted_messages_total") == 3
    assert value("pings_total", outcome="failed") >= 1
    assert value("state", state="failed over") == 1
    world.way.heal()
    await world.backlog_has(0)
    await eventually(lambda: value("restored_messages_total") == 3, "three restored")
    await eventually(
        lambda: value("pings_total", outcome="accepted") == 1, "a ping accepted"
    )
    await sender.send_messages(message("after"))
    assert value("state", state="healthy") == 1
    assert value("state", state="failed over") == 0
