"""S3: messages of a lake come back as they were, once."""

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from azure.servicebus import ServiceBusMessage
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from property.test_typed_texts import VALUES
from pyspark.sql import SparkSession

from twinbus.amqp.messaging import (
    AmqpSequence,
    AmqpValue,
    Data,
    Message,
    Properties,
)
from twinbus.spark.jobs.job_errors import JobRefused
from twinbus.spark.jobs.lake.errors import LakeDamaged, LakeError
from twinbus.spark.jobs.replay import ReplayedLife

from .harness import Namespace, numbered
from .lakes import LakeTest, bare_messages, purge
from .test_types import MESSAGES, SEQUENCE, put

SDK_PROPERTIES: dict[str, Any] = {
    "text": "text \u00e9",
    "number": 7,
    "large": 1 << 30,
    "yes": True,
    "half": 0.5,
    "id": UUID("00112233-4455-6677-8899-aabbccddeeff"),
    "at": datetime(2026, 11, 17, 12, tzinfo=UTC),
}


@pytest.fixture
def world(spark: SparkSession, namespace: Namespace, tmp_path: Path) -> LakeTest:
    namespace.bus.create_queue("orders")
    return LakeTest(spark, namespace, tmp_path / "lake")


def sdk_view(namespace: Namespace, queue: str) -> list[tuple[Any, ...]]:
    """What the vendor's SDK tells of each message, without what a bus numbers."""
    return [
        (
            list(message.body) if message.body_type.name == "DATA" else message.body,
            message.application_properties,
            [type(one) for one in (message.application_properties or {}).values()],
            (message.message_id, message.correlation_id, message.subject, message.to),
            (message.content_type, message.session_id, message.partition_key),
            (message.reply_to, message.reply_to_session_id, message.time_to_live),
        )
        for message in namespace.peek(queue)
    ]


def random_messages(count: int) -> list[Message]:
    """Of any types and bodies; drawn by Hypothesis, and then used all at once, because
    one run of Spark serves many."""
    found: list[Message] = []
    ids = st.none() | st.text(min_size=1, max_size=20) | st.uuids()
    bodies = st.one_of(
        st.binary(max_size=2_000).map(lambda part: Data((part,))),
        st.lists(st.binary(max_size=30), min_size=2, max_size=3).map(
            lambda parts: Data(tuple(parts))
        ),
        VALUES.map(AmqpValue),
        st.lists(VALUES, max_size=3).map(lambda values: AmqpSequence((values,))),
    )

    @settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(
        st.builds(
            Message,
            properties=st.builds(
                Properties,
                message_id=ids,
                correlation_id=ids,
                subject=st.none() | st.text(max_size=20),
            ),
            application_properties=st.none()
            | st.dictionaries(st.text(max_size=20), VALUES, max_size=6),
            body=bodies,
        )
    )
    def draw(message: Message) -> None:
        found.append(message)

    draw()
    return found


def test_every_type_and_random_messages_come_back_as_they_were(
    world: LakeTest,
) -> None:
    """SDK, capture, purge, replay, SDK: the same types and bytes."""
    namespace = world.namespace
    namespace.bus.create_queue("typed")
    namespace.send(
        "orders",
        [
            ServiceBusMessage(
                b"data",
                application_properties=SDK_PROPERTIES,
                message_id="m-1",
                correlation_id="c",
                subject="s",
                to="t",
                reply_to="r",
                content_type="text/plain",
                partition_key="k",
            ),
            ServiceBusMessage("", message_id="m-2"),
        ],
    )
    put(namespace, "typed", [*MESSAGES, SEQUENCE, *random_messages(150)])
    as_sent = sdk_view(namespace, "orders")
    bytes_sent = {name: bare_messages(namespace, name) for name in ("orders", "typed")}
    assert len(bytes_sent["typed"]) >= 100

    assert world.capture("orders", "typed", consumes=True).entities == {
        "orders": 2,
        "typed": len(bytes_sent["typed"]),
    }
    assert namespace.peek("orders") == []
    summary = world.replay("back")
    assert summary.sent == summary.selected == 2 + len(bytes_sent["typed"])

    assert sdk_view(namespace, "orders") == as_sent
    for name, before in bytes_sent.items():
        assert bare_messages(namespace, name) == before


def test_the_same_id_twice_sends_once(world: LakeTest) -> None:
    namespace = world.namespace
    namespace.send("orders", numbered("o", range(5)))
    world.capture("orders")
    purge(namespace, "orders")
    first, second = (world.replay("one") for _ in range(2))
    assert (first.sent, first.known) == (5, 0)
    assert (second.sent, second.known) == (0, 5)
    assert namespace.bodies("orders") == numbered("o", range(5))
    purge(namespace, "orders")
    assert world.replay("one").known == 5
    assert world.replay("another").sent == 5
    assert namespace.bodies("orders") == numbered("o", range(5))


def test_only_what_is_selected_is_sent_where_it_is_to_go(world: LakeTest) -> None:
    namespace, bus = world.namespace, world.namespace.bus
    bus.create_topic("billing")
    for name in ("copies", "all"):
        bus.create_queue(name)
    bus.create_subscription("billing", "audit")
    red = [
        ServiceBusMessage(f"o{n}", application_properties={"red": n % 2 == 0})
        for n in range(6)
    ]
    namespace.send("orders", red)
    bus.advance(3_600 - bus.now().timestamp() % 3_600)
    middle = int(bus.now().timestamp() * 1000)
    namespace.send("orders", ["late"])
    namespace.send_to_topic("billing", ["b"])
    world.capture("orders", "billing/subscriptions/audit", max_messages=4)
    assert len(world.lake.hours(["orders"])) == 2

    plan = world.replay("dry", is_dry_run=True)
    assert (plan.selected, plan.sent) == (8, 0)
    assert [(flow.entity, flow.target, flow.messages) for flow in plan.flows] == [
        ("billing/Subscriptions/audit", "billing", 1),
        ("orders", "orders", 7),
    ]
    chosen: list[tuple[dict[str, Any], list[str]]] = [
        ({"where": "application_properties['red'] = 'true'"}, ["o0", "o2", "o4"]),
        ({"from_sequence": 2, "to_sequence": 3}, ["o1", "o2"]),
        ({"start_at": middle}, ["late"]),
        ({"end_at": middle, "from_sequence": 6}, ["o5"]),
    ]
    for number, (narrowed, bodies) in enumerate(chosen):
        narrowed |= {"entities": ("Orders",), "targets": {"orders": "copies"}}
        assert world.replay(f"n{number}", **narrowed).sent == len(bodies)
        assert namespace.bodies("copies") == bodies
        purge(namespace, "copies")
    assert world.replay("all", target="all").sent == 8
    assert namespace.bodies("all")[:6] == numbered("o", range(6))
    assert world.replay("back", entities=("billing/Subscriptions/audit",)).sent == 1
    assert namespace.bodies("billing/subscriptions/audit") == ["b", "b"]


def test_life_schedule_and_rate(world: LakeTest) -> None:
    namespace, bus = world.namespace, world.namespace.bus
    for name in ("kept", "left", "reset"):
        bus.create_queue(name)
    soon = bus.now() + timedelta(seconds=5)
    namespace.send(
        "orders",
        [
            ServiceBusMessage(
                "scheduled",
                time_to_live=timedelta(hours=2),
                scheduled_enqueue_time_utc=soon,
            ),
            ServiceBusMessage("long", time_to_live=timedelta(days=40)),
        ],
    )
    bus.advance(10)
    assert world.capture("orders").messages == 2

    world.replay("keep", target="kept", rate=1_000.0)
    kept = {str(message): message for message in namespace.peek("kept")}
    assert kept["scheduled"].time_to_live == timedelta(hours=2)
    assert kept["scheduled"].scheduled_enqueue_time_utc is not None
    assert kept["long"].time_to_live == timedelta(days=40)

    summary = world.replay("left", target="left", life=ReplayedLife.REMAINING)
    left = {str(message): message for message in namespace.peek("left")}
    # By the clock of Spark, which may be some seconds off that of the bus.
    assert abs(left["scheduled"].time_to_live - timedelta(hours=2)) < timedelta(hours=1)
    assert left["scheduled"].time_to_live != timedelta(hours=2)
    assert left["long"].time_to_live > timedelta(days=39)
    assert (summary.sent, summary.expired) == (2, 0)

    world.replay("reset", target="reset", life=ReplayedLife.RESET, keeps_schedule=False)
    for message in namespace.peek("reset"):
        assert message.time_to_live is None or message.time_to_live.days > 10_000
        assert message.scheduled_enqueue_time_utc is None


def break_nothing(lake: Path) -> None:
    """As it is."""


def tear(lake: Path) -> None:
    file = next((lake / "messages").rglob("*.parquet"))
    file.write_bytes(file.read_bytes()[:-10])


def lose(lake: Path) -> None:
    next((lake / "messages").rglob("*.parquet")).unlink()


def flip(lake: Path) -> None:
    """A file of the same size with another message in it."""
    file = next((lake / "messages").rglob("*.parquet"))
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 0xFF
    file.write_bytes(bytes(content))


def change(name: str, **values: object) -> Callable[[Path], None]:
    def changed(lake: Path) -> None:
        [file] = lake.glob(name)
        file.write_text(json.dumps({**json.loads(file.read_text()), **values}))

    return changed


def tear_manifest(lake: Path) -> None:
    file = next((lake / "manifest").rglob("hour=*.json"))
    file.write_text(file.read_text()[:50])


def empty(lake: Path) -> None:
    shutil.rmtree(lake / "manifest")


BROKEN: list[tuple[Callable[[Path], None], type[Exception], str]] = [
    (tear, LakeDamaged, "by the manifest it has"),
    (lose, LakeDamaged, "is gone; by the manifest"),
    (flip, LakeDamaged, "do not have what the manifest says|a file cannot be read"),
    (change("lake.json", format=2), LakeError, "is of format 2"),
    (
        change("manifest/entity=*/*/*.json", format=7),
        LakeError,
        "hour=.* is of format 7",
    ),
    (tear_manifest, LakeDamaged, "is torn or damaged: it is not a JSON object"),
    (change("lake.json", namespace="b@2"), LakeError, "add --other-namespace"),
    (empty, LakeError, "is empty: nothing was captured"),
    (shutil.rmtree, LakeError, "has no lake: there is no lake.json"),
]


def test_a_bad_lake_is_told_and_nothing_is_sent(world: LakeTest) -> None:
    world.namespace.bus.create_queue("copies")
    world.namespace.send("orders", numbered("o", range(3)))
    world.capture("orders")
    whole = world.folder
    for number, (breaking, kind, text) in enumerate(BROKEN):
        world.folder = whole.with_name(f"broken{number}")
        shutil.copytree(whole, world.folder)
        # Spark keeps sums of local files beside them; a copy elsewhere has none.
        for file in world.folder.rglob(".*.crc"):
            file.unlink()
        breaking(world.folder)
        with pytest.raises(kind, match=text):
            world.replay("bad", target="copies")
        assert world.namespace.peek("copies") == []
    world.folder = whole.with_name("broken6")
    assert world.replay("x", target="copies", allows_other_namespace=True).sent == 3


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"where": "nonsense = 3"}, "--where is not a condition"),
    ({"where": "((("}, "--where is not a condition"),
    ({"entities": ("nope",)}, "has nothing of 'nope'. It has orders"),
    ({"target": "nowhere"}, "'nowhere' does not take messages"),
    ({"target": "t/subscriptions/s"}, "name a queue or a topic"),
    ({"targets": {"other": "orders"}}, "of which nothing is replayed"),
    ({"rate": 0.0}, "must be more than 0"),
]


def test_what_makes_no_sense_is_refused(world: LakeTest) -> None:
    world.namespace.send("orders", ["o"])
    world.capture("orders")
    for options, text in REFUSED:
        with pytest.raises(JobRefused, match=text):
            world.replay("r", **options)
    with pytest.raises(JobRefused, match="printable ASCII"):
        world.replay("with blank")
    assert len(world.namespace.peek("orders")) == 1
