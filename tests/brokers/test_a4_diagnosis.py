"""A4: a broker whose loop is stuck is replaced by others, and leaves a diagnosis."""

import json
import os
import signal
from pathlib import Path

from crash import messages
from crash.server_process import environment

from twinbus.client import RequestFailed
from twinbus.store.process_identity import is_running

from .processes import Brokers, until

# Every process of Python that finds this gets a signal on which its loop does nothing
# else any more.
STUCK_ON_SIGNAL = """
import signal, time
signal.signal(signal.SIGUSR1, lambda *_: time.sleep(3600))
"""


def stuck_on_signal(folder: Path) -> tuple[str, str]:
    """A command that runs another, and whatever that starts, in this way."""
    (folder / "sitecustomize.py").write_text(STUCK_ON_SIGNAL)
    return ("env", f"PYTHONPATH={folder}:{environment()['PYTHONPATH']}")


def diagnoses(brokers: Brokers, pid: int) -> list[Path]:
    """Those of this process that are whole."""
    found = (brokers.data / "diagnosis").glob("2*/index.json")
    return [
        one.parent for one in found if json.loads(one.read_text())["process"] == pid
    ]


async def finds(brokers: Brokers, name: str, message: str) -> bool:
    """This broker shows the message; it may need a moment to hear of the owner."""
    async with await brokers.connect(name) as client:
        try:
            found = await messages.peek_all(client, "q")
        except RequestFailed as refusal:
            assert refusal.status == 503
            return False
    assert [one.name for one in found] == [message]
    return True


async def check_is_replaced(brokers: Brokers, *names: str) -> None:
    """The first of these, which gets stuck and has a queue with a message."""
    async with await brokers.connect(names[0]) as client:
        await brokers.make(names[0], "queue", "q")
        await (await client.sender("q")).send(messages.named("before"))
    stuck = (await brokers.alive())[names[0]]
    (store,) = (await brokers.placements())["q"]
    assert store in stuck.stores
    os.kill(stuck.process.pid, signal.SIGUSR1)

    async def is_replaced() -> bool:
        owners = [one for one in (await brokers.alive()).values() if one != stuck]
        return any(one.stores.get(store, 0) > stuck.stores[store] for one in owners)

    await until(is_replaced)
    assert not is_running(stuck.process)
    await until(lambda: finds(brokers, names[1], "before"))
    *_, folder = sorted(diagnoses(brokers, stuck.process.pid))
    index = json.loads((folder / "index.json").read_text())
    assert index["why"] == "silent"
    assert all("bytes" in part for part in index["parts"].values()), index
    assert "sitecustomize" in (folder / "stacks.txt").read_text()
    assert '"path": "q"' in (folder / "stores.json").read_text()


async def test_a4_stuck_broker_leaves_a_diagnosis_before_its_supervisor_kills_it(
    brokers: Brokers,
) -> None:
    brokers.stores = brokers.stores[:2]
    await brokers.start("--brokers=2", within=stuck_on_signal(brokers.folder))
    await until(lambda: brokers.owns_all("1", "2"))
    await check_is_replaced(brokers, "1", "2")


async def test_a4_stuck_broker_leaves_a_diagnosis_before_another_one_kills_it(
    brokers: Brokers,
) -> None:
    brokers.stores = brokers.stores[:2]
    names = []
    for _ in range(2):
        one = await brokers.start("--join", within=stuck_on_signal(brokers.folder))
        names.append(f"of process {one.pid}")
    await until(lambda: brokers.owns_all(*names))
    await check_is_replaced(brokers, *names)


async def test_supervisor_that_is_asked_for_a_diagnosis_has_all_brokers_write_one(
    brokers: Brokers,
) -> None:
    supervisor = await brokers.start("--brokers=2")
    pids = [one.process.pid for one in (await brokers.alive()).values()]
    supervisor.send_signal(signal.SIGUSR2)

    async def have_written() -> bool:
        return all(diagnoses(brokers, pid) for pid in pids)

    await until(have_written)
    assert supervisor.poll() is None
    alive = (await brokers.alive()).values()
    assert sorted(one.process.pid for one in alive) == sorted(pids)
    for pid in pids:
        (folder,) = diagnoses(brokers, pid)
        assert json.loads((folder / "index.json").read_text())["why"] == "asked"
