"""`kill -9` of the bus between a plan and its settlement: both survive.

After the restart the lease and the plan are unchanged; rows that were appended and
confirmed are there, once.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from crash.server_process import ServerProcess
from wire.message import data_message
from wire.own_annotations import restored

from twinbus.auth import sas
from twinbus.config.config import ROOT_KEY_NAME

from .caller import Caller


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path, "[queues.orders]\n[queues.other]\n") as running:
        running.start_now()
        yield running
        assert "Traceback" not in running.errors


@pytest.fixture
def call(server: ServerProcess) -> Iterator[Caller]:
    token = sas.make(
        resource=f"http://localhost:{server.port}/",
        key_name=ROOT_KEY_NAME,
        key=server.key,
        expires_at=int((time.time() + 600) * 1000),
    )
    caller = Caller(server.port, token)
    yield caller
    caller.close()


def kill_and_start(server: ServerProcess, call: Caller) -> None:
    server.kill()
    call.close()
    server.start_now()


def test_a_lease_and_a_plan_outlive_a_kill(server: ServerProcess, call: Caller) -> None:
    call.append(("orders", data_message(str(number))) for number in range(1_000))
    [epoch] = call.lease("orders", duration_ms=600_000)
    planned = call.plan("orders", epoch=epoch, limits={"max_messages": 600})
    generation = call.generation("orders")
    kill_and_start(server, call)
    assert call.generation("orders") == generation
    assert call.fragment("orders")["lease"]["epoch"] == epoch
    other = {"reader": "other", "duration_ms": 60_000, "entities": [{"path": "orders"}]}
    assert call.ask("lease", other).status == 409
    # What is settled is what was planned before the kill, and no more.
    assert len(call.bodies("orders", end=planned["to"])) == 600
    assert call.settle("orders", epoch, to=5_000)["completed"] == 600
    kill_and_start(server, call)
    assert call.settle("orders", epoch, to=5_000)["completed"] == 0
    found = call.bodies("orders", end=5_000)
    assert found == [str(number) for number in range(600, 1_000)]


def test_who_was_fenced_off_stays_so(server: ServerProcess, call: Caller) -> None:
    call.append([("orders", data_message("a"))])
    [old] = call.lease("orders")
    call.plan("orders", epoch=old)
    [new] = call.lease("orders")
    kill_and_start(server, call)
    entity = {"path": "orders", "epoch": old, "to": {"0": 2}}
    stale = {"reader": "reader-1", "entities": [entity]}
    assert call.ask("settle", stale).status == 410
    assert call.settle("orders", new, to=2)["completed"] == 1


def test_what_was_appended_is_known_after_a_kill(
    server: ServerProcess, call: Caller
) -> None:
    rows = [
        ("orders", restored(str(number), f"{number}@life@source"))
        for number in range(1, 801)
    ]
    assert call.append(rows)["applied"] == 800
    kill_and_start(server, call)
    answer = call.append([("other", message) for _, message in rows])
    assert answer == {"applied": 0, "known": list(range(800)), "refused": []}
    assert call.fragment("orders")["active_count"] == 800
