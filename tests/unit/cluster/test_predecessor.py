"""Whether the last owner of a file is gone."""

import os
from dataclasses import replace
from typing import Any

import pytest
from unit.cluster.world import ClusterWorld

from twinbus.cluster.announcement import Announcement
from twinbus.cluster.predecessor import Predecessors
from twinbus.cluster.shared_store import SharedStore
from twinbus.store.process_identity import (
    ProcessIdentity,
    SystemProcesses,
    this_process,
)

pytestmark = pytest.mark.skipif(
    not this_process().pid_namespace, reason="the system does not tell containers"
)


async def _are_gone(world: ClusterWorld, **other: Any) -> bool:
    """Of a store that a broker had which is not heard of, and is not this process."""
    here = this_process()
    holder = replace(here, pid=here.pid + 1, start=f"{_boot(here)}:1", **other)
    owner = (await world.join("a")).shared[0].owner
    shared = SharedStore(owner, owner.store, lambda: holder)
    silent = Announcement(
        broker_uuid=os.urandom(16),
        name="gone",
        address="",
        beat=1,
        process=holder,
        formats={},
        stores={shared.uuid: 1},
    )
    return Predecessors(SystemProcesses()).are_gone(shared, [silent], [])


def _boot(process: ProcessIdentity) -> str:
    return process.start.partition(":")[0]


async def test_broker_that_has_ended_is_gone(world: ClusterWorld) -> None:
    assert await _are_gone(world)


async def test_silent_broker_of_another_container_may_have_its_file(
    world: ClusterWorld, caplog: pytest.LogCaptureFixture
) -> None:
    assert not await _are_gone(world, pid_namespace="pid:[1]")
    assert "cannot be ended from here" in caplog.text


async def test_container_with_a_host_name_of_its_own_is_another_one(
    world: ClusterWorld,
) -> None:
    assert not await _are_gone(world, host="elsewhere", pid_namespace="pid:[1]")


async def test_broker_of_an_earlier_boot_is_gone(world: ClusterWorld) -> None:
    here = this_process()
    holder = replace(here, start="another-boot:1", pid_namespace="pid:[1]")
    owner = (await world.join("a")).shared[0].owner
    shared = SharedStore(owner, owner.store, lambda: holder)
    assert Predecessors(SystemProcesses()).are_gone(shared, [], [])
