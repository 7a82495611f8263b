"""Faults and diagnoses of several brokers: whoever is asked, all of them do it."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError

from twinbus.auth import sas
from twinbus.config.config import ROOT_KEY_NAME

from .processes import PATIENCE_SECONDS, Brokers, until

HOUR_MS = 3_600_000
ALL = ("1", "2", "3")


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Three brokers that can fail on purpose, and do not keep messages for a store that
    fails."""
    flags = ("--brokers=3", "--allow-faults", "--transfer-conventional=off")
    with Brokers(tmp_path_factory.mktemp("faulty")) as made:
        asyncio.run(made.start(*flags))
        asyncio.run(until(lambda: made.owns_all(*ALL)))
        for name in ALL:
            asyncio.run(until(lambda name=name: knows_all(made, name)))
        yield made


@pytest.fixture(autouse=True)
def no_faults(faulty: Brokers) -> Iterator[None]:
    yield

    async def are_gone() -> bool:
        await asyncio.to_thread(asked, faulty, "1", "DELETE")
        listed = await asyncio.to_thread(asked, faulty, "1", "GET")
        return listed["faults"] == listed["missing"] == []

    asyncio.run(until(are_gone))


async def knows_all(brokers: Brokers, name: str) -> bool:
    """This broker has seen the two others."""
    answer = await asyncio.to_thread(asked, brokers, name, "POST", "/$diagnosis")
    return sorted(answer["brokers"]) == sorted(ALL)


def asked(
    brokers: Brokers, name: str, method: str, path: str = "/$faults", body: Any = None
) -> Any:
    """What this broker answers at its own address: at the shared one any answers."""
    port = int(announced(brokers)[name].address.rpartition(":")[2])
    status, answer = exchanged(brokers, port, method, path, body)
    assert status < 300, answer
    return answer


def announced(brokers: Brokers) -> Any:
    return asyncio.run(brokers.alive())


def exchanged(
    brokers: Brokers, port: int, method: str, path: str, body: Any = None
) -> tuple[int, Any]:
    token = sas.make(
        resource="http://localhost/",
        key_name=ROOT_KEY_NAME,
        key=brokers.root_key,
        expires_at=int(time.time() * 1000) + HOUR_MS,
    )
    connection = HTTPConnection("127.0.0.1", port, PATIENCE_SECONDS)
    content = None if body is None else json.dumps(body)
    connection.request(method, path, content, {"authorization": token})
    response = connection.getresponse()
    found = response.read()
    connection.close()
    is_json = response.headers.get("content-type") == "application/json"
    return response.status, json.loads(found) if is_json else found


def test_fault_is_set_listed_and_cleared_at_all_brokers(faulty: Brokers) -> None:
    first = asked(faulty, "1", "POST", body={"effect": "refuse", "seed": 3})
    second = asked(faulty, "2", "POST", body={"effect": "busy", "for": "10m"})
    assert first["missing"] == second["missing"] == []
    numbers = {first["number"], second["number"]}
    assert len(numbers) == 2
    for name in ALL:
        listed = asked(faulty, name, "GET")
        assert listed["missing"] == []
        assert {one["number"] for one in listed["faults"]} == numbers
        for one in listed["faults"]:
            assert one["brokers"] == dict.fromkeys(ALL, 0)
    (cleared,) = asked(faulty, "3", "DELETE", f"/$faults/{first['number']}")["faults"]
    assert cleared["number"] == first["number"]
    for name in ALL:
        (left,) = asked(faulty, name, "GET")["faults"]
        assert left["number"] == second["number"]
    assert len(asked(faulty, "2", "DELETE")["faults"]) == 1
    for name in ALL:
        assert asked(faulty, name, "GET")["faults"] == []


def test_fault_that_nobody_has_cannot_be_cleared(faulty: Brokers) -> None:
    port = int(announced(faulty)["1"].address.rpartition(":")[2])
    status, answer = exchanged(faulty, port, "DELETE", "/$faults/4000")
    assert status == 404
    assert "No fault has the number 4000" in answer["error"]["message"]


@pytest.mark.filterwarnings(
    # The SDK does not close the socket of a connection that was cut.
    "ignore::ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)
@pytest.mark.parametrize("asked_at", ALL)
def test_fault_hits_the_broker_that_owns_the_store(
    faulty: Brokers, asked_at: str
) -> None:
    queue = f"owned-{asked_at}"
    asyncio.run(faulty.make("2", "queue", queue))
    client = ServiceBusClient.from_connection_string(
        f"Endpoint=sb://localhost:{faulty.port};SharedAccessKeyName={ROOT_KEY_NAME};"
        f"SharedAccessKey={faulty.root_key};UseDevelopmentEmulator=true",
        retry_total=0,
    )
    asked(faulty, asked_at, "POST", body={"effect": "failing", "entity": queue})
    with client, client.get_queue_sender(queue) as sender:
        with pytest.raises(ServiceBusError):
            sender.send_messages(ServiceBusMessage("not stored"))
        (fault,) = asked(faulty, asked_at, "GET")["faults"]
        assert fault["hits"] == sum(fault["brokers"].values()) > 0
        asked(faulty, asked_at, "DELETE")
        sender.send_messages(ServiceBusMessage("stored"))


def test_broker_that_starts_later_has_the_faults(faulty: Brokers) -> None:
    fault = {"effect": "refuse", "operations": ["send"], "entity": "nothing"}
    number = asked(faulty, "1", "POST", body=fault)["number"]
    asyncio.run(faulty.kill("2"))

    async def has_it() -> bool:
        listed = await asyncio.to_thread(asked, faulty, "3", "GET")
        (found,) = listed["faults"]
        assert found["number"] == number
        return set(found["brokers"]) == set(ALL)

    async def has_it_at_both() -> bool:
        alive = await faulty.alive()
        return set(alive) == set(ALL) and await has_it()

    asyncio.run(until(has_it_at_both))


def test_broker_that_does_not_answer_is_named(faulty: Brokers) -> None:
    asyncio.run(until(lambda: knows_all(faulty, "1")))
    process = announced(faulty)["3"].process
    os.kill(process.pid, signal.SIGSTOP)
    try:
        fault = asked(faulty, "1", "POST", body={"effect": "refuse", "entity": "none"})
    finally:
        os.kill(process.pid, signal.SIGCONT)
    (missing,) = fault["missing"]
    assert missing["broker"] == "3"
    assert "did not answer" in missing["why"]


def test_clients_cannot_ask_as_brokers_do(faulty: Brokers) -> None:
    fault = asked(faulty, "1", "POST", body={"effect": "refuse", "entity": "none"})
    asked(faulty, "1", "DELETE")
    own_port = int(announced(faulty)["1"].address.rpartition(":")[2])
    for port in (faulty.port, own_port):
        path = "/$peers/management/copy-fault"
        status, _ = exchanged(faulty, port, "POST", path, fault)
        assert 400 <= status < 500
    assert asked(faulty, "1", "GET")["faults"] == []


def test_diagnosis_is_one_of_each_broker(faulty: Brokers) -> None:
    asyncio.run(until(lambda: knows_all(faulty, "2")))
    answer = asked(faulty, "2", "POST", "/$diagnosis")
    assert answer["missing"] == []
    folders = answer["brokers"]
    assert answer["folder"] == folders["2"]
    processes = {
        name: json.loads((Path(folder) / "index.json").read_text())["process"]
        for name, folder in folders.items()
    }
    alive = announced(faulty)
    assert processes == {name: alive[name].process.pid for name in ALL}
