"""Sending to an entity: pings are not stored, duplicates are dropped."""

import pytest

from twinbus.amqp.link import Link
from twinbus.amqp.messaging import Data, Message, Properties, encode_message
from twinbus.amqp.outcomes import Accepted
from twinbus.amqp.types import Symbol, Timestamp
from twinbus.broker.operation_log import DUPLICATE, PING, SEND
from twinbus.broker.operation_record import decode_operations
from twinbus.errors import ServerBusy

from .world import BODY, NOW, World, run

PING_MESSAGE = encode_message(
    Message(
        message_annotations={
            Symbol("x-opt-scheduled-enqueue-time"): Timestamp(NOW + 1000)
        },
        properties=Properties(
            message_id="id", content_type=Symbol("application/vnd.ms-servicebus-ping")
        ),
    )
)


def identified(
    text: bytes, send_id: bytes | None = None, origin: str | None = None
) -> bytes:
    annotations: dict[object, object] = {}
    if send_id is not None:
        annotations[Symbol("x-opt-twinbus-send-id")] = send_id
    if origin is not None:
        annotations[Symbol("x-opt-twinbus-restored-from")] = origin
    return encode_message(Message(message_annotations=annotations, body=Data((text,))))


def send(world: World, link: Link, *payloads: bytes) -> None:
    """Send, and commit."""
    for payload in payloads:
        link.send(payload, b"tag", False)
    world.pump()
    world.home.commit()


def operations(world: World) -> list[int]:
    """What was done since the first commit, in order."""
    blobs = run(world.home.store.operations(1, 100))
    return [run.operation for _, blob in blobs for run in decode_operations(blob).runs]


def bodies(world: World) -> list[bytes]:
    messages = run(world.home.store.browse(world.fragment.number, 0, 100, 1 << 20))
    return [message.raw[-1:] for message in messages]


@pytest.mark.parametrize(
    "settings", [{}, {"requires_session": True}, {"duplicate_window_ms": 1000}]
)
def test_ping_is_accepted_by_its_commit_and_leaves_nothing(
    settings: dict[str, int],
) -> None:
    world = World(**settings)
    before = world.fragment.record()
    link, _ = world.sender()
    link.send(PING_MESSAGE, b"tag", False)
    assert world.verdicts() == []
    world.home.apply_admissions()
    assert not world.home.changes.is_empty()
    world.home.commit()
    assert world.verdicts() == [(0, 0, Accepted())]
    assert world.fragment.record() == before
    assert (world.home.expected, world.fragment.ping_count) == ([], 1)
    assert operations(world) == [PING]
    assert run(world.home.store.seen(0, [b"m\xa1\x02id"], NOW)) == set()


def test_ping_whose_commit_fails_is_refused(world: World) -> None:
    link, _ = world.sender()
    link.send(PING_MESSAGE, b"tag", False)
    world.pump()
    world.home.fail(ServerBusy())
    [(_, _, state)] = world.verdicts()
    assert not isinstance(state, Accepted)


def test_copy_is_accepted_and_dropped(world: World) -> None:
    link, _ = world.sender()
    send(world, link, identified(b"a", b"1"), identified(b"b", b"1"))
    assert world.verdicts() == [(0, 1, Accepted())]
    send(world, link, identified(b"c", b"1"), identified(b"d", b"2"))
    assert world.verdicts() == [(2, 3, Accepted())]
    assert bodies(world) == [b"a", b"d"]
    assert operations(world) == [SEND, DUPLICATE, DUPLICATE, SEND]


def test_id_is_forgotten_when_its_time_is_over(world: World) -> None:
    world.home.send_id_window_ms = 100
    link, _ = world.sender()
    for elapsed_ms in (0, 99, 1, 99):
        world.home.now += elapsed_ms
        send(world, link, identified(b"a", b"1"))
    assert bodies(world) == [b"a", b"a"]


def test_failed_commit_remembers_nothing(world: World) -> None:
    link, _ = world.sender()
    link.send(identified(b"a", b"1", "1@g@s"), b"tag", False)
    world.pump()
    world.home.apply_admissions()
    world.home.fail(ServerBusy())
    send(world, link, identified(b"b", b"1", "1@g@s"))
    assert bodies(world) == [b"b"]


def test_restored_message_is_restored_once(world: World) -> None:
    link, _ = world.sender()
    send(world, link, *(identified(b"a", None, f"{n}@g@s") for n in (1, 2, 2, 3)))
    send(world, link, identified(b"b", None, "2@g@s"))
    assert bodies(world) == [b"a", b"a", b"a"]
    assert run(world.home.store.restored("s", b"g", [1, 2, 3, 4])) == {1, 2, 3}


def test_what_its_send_id_drops_counts_as_restored(world: World) -> None:
    link, _ = world.sender()
    send(world, link, identified(b"a", b"1"))
    send(world, link, identified(b"b", b"1", "7@g@s"))
    assert bodies(world) == [b"a"]
    assert run(world.home.store.restored("s", b"g", [7])) == {7}


def test_who_may_not_restore_sends(world: World) -> None:
    link, _ = world.sender(restores=False)
    send(world, link, *[identified(b"a", None, "1@g@s")] * 2)
    assert bodies(world) == [b"a", b"a"]
    assert run(world.home.store.restored("s", b"g", [1])) == set()


def test_what_follows_an_id_is_enqueued_after_it(world: World) -> None:
    link, _ = world.sender()
    plain = encode_message(Message(body=Data((b"2",))))
    send(world, link, identified(b"1", b"1"), plain, identified(b"3", b"3"))
    assert bodies(world) == [b"1", b"2", b"3"]
    # Nothing waits any more: the next one goes the short way.
    link.send(BODY, b"tag", False)
    world.pump()
    assert world.home.admissions == []
    assert world.fragment.active_count == 4
