"""A change of the catalog is answered when other brokers know it."""

from collections.abc import Callable

import pytest

from twinbus.amqp.messaging import AmqpValue, Message
from twinbus.cluster.announcement import Announcement
from twinbus.cluster.broker_directory import BrokerDirectory
from twinbus.errors import ServerBusy
from twinbus.process import cluster_entities
from twinbus.process.cluster_entities import ClusterEntities
from twinbus.store.process_identity import this_process

ME, OTHER = bytes(16), b"o" * 16
DONE = Message(application_properties={"statusCode": 200}, body=AmqpValue({}))
BUSY = Message(
    application_properties={
        "statusCode": 500,
        "errorCondition": "com.microsoft:server-busy",
        "statusDescription": "The catalog is away.",
    }
)


def announced(broker_uuid: bytes) -> Announcement:
    return Announcement(
        broker_uuid=broker_uuid,
        name="",
        address=f"127.0.0.1:{broker_uuid[0] + 1}",
        beat=1,
        process=this_process(),
        formats={},
    )


class OtherBroker:
    """In place of the connections to it: gives these answers, one after the other."""

    def __init__(self, *answers: Message | ServerBusy) -> None:
        self._answers = list(answers)
        self.asked_count = 0
        self.on_asked: Callable[[], None] = lambda: None

    async def request(
        self, address: str, node: str, message: Message, timeout_seconds: float
    ) -> Message:
        self.asked_count += 1
        self.on_asked()
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, ServerBusy):
            raise answer
        return answer


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_entities, "_ASK_AGAIN_SECONDS", 0.001)


@pytest.fixture
def directory() -> BrokerDirectory:
    made = BrokerDirectory(ME)
    made.learn([announced(ME), announced(OTHER)])
    return made


def entities(directory: BrokerDirectory, other: OtherBroker) -> ClusterEntities:
    return ClusterEntities(other, directory)  # type: ignore[arg-type]


async def test_broker_that_cannot_follow_yet_is_asked_again(
    directory: BrokerDirectory,
) -> None:
    other = OtherBroker(ServerBusy("It is silent."), BUSY, DONE)
    await entities(directory, other).follow()
    assert other.asked_count == 3


async def test_broker_that_has_left_is_not_waited_for(
    directory: BrokerDirectory,
) -> None:
    other = OtherBroker(ServerBusy("It is silent."))
    other.on_asked = lambda: directory.learn([announced(ME)])
    await entities(directory, other).follow()
    assert other.asked_count == 1


async def test_broker_that_has_ended_is_not_waited_for(
    directory: BrokerDirectory,
) -> None:
    refused = ServerBusy("Nobody listens.")
    refused.__cause__ = ConnectionRefusedError()
    other = OtherBroker(refused)
    await entities(directory, other).follow()
    assert other.asked_count == 1


async def test_waiting_for_a_broker_has_an_end(
    directory: BrokerDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_entities, "_FOLLOW_SECONDS", 0.02)
    other = OtherBroker(BUSY)
    await entities(directory, other).follow()
    assert other.asked_count > 1
