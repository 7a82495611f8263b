"""The supervisor: one address, one line `ready`, and no broker without it."""

import asyncio
import os
import signal
import ssl
from functools import partial
from pathlib import Path

import pytest

from bench.free_port import free_port
from twinbus.amqp.sasl import plain
from twinbus.cli import exit_codes
from twinbus.client import connect
from twinbus.clock import SystemClock
from twinbus.config.config import ROOT_KEY_NAME, Config
from twinbus.process.certificates import tls_context
from twinbus.store.process_identity import is_running

from .processes import PATIENCE_SECONDS, Brokers, until

# In /proc/net/tcp.
_ESTABLISHED = "01"


async def test_all_brokers_stop_with_their_supervisor(brokers: Brokers) -> None:
    supervisor = await brokers.start("--brokers=2")
    processes = [one.process for one in (await brokers.alive()).values()]
    supervisor.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(supervisor.wait, PATIENCE_SECONDS) == exit_codes.OK
    assert not any(map(is_running, processes))
    assert await brokers.announced() == []
    assert "killed" not in brokers.log


async def test_brokers_notice_that_their_supervisor_was_killed(
    brokers: Brokers,
) -> None:
    supervisor = await brokers.start("--brokers=2")
    processes = [one.process for one in (await brokers.alive()).values()]
    supervisor.kill()

    async def are_gone() -> bool:
        return not any(map(is_running, processes))

    await until(are_gone)
    # They have given everything back: the next start need not wait.
    await brokers.start("--brokers=2")


async def test_all_brokers_read_a_new_certificate(
    brokers: Brokers, tmp_path: Path
) -> None:
    pems = []
    for name in ("first", "second"):
        folder = tmp_path / name
        tls_context(Config(data=folder), SystemClock().now())
        pems.append((folder / "tls" / "server.pem").read_text())
    file, port = tmp_path / "brought.pem", free_port()
    file.write_text(pems[0])
    supervisor = await brokers.start(
        "--brokers=2", f"--tls-port={port}", f"--tls-cert={file}"
    )
    file.write_text(pems[1])
    supervisor.send_signal(signal.SIGHUP)
    shown = partial(ssl.get_server_certificate, ("127.0.0.1", port), timeout=20)

    async def is_new_everywhere() -> bool:
        # Any broker may accept a connection.
        found = [await asyncio.to_thread(shown) for _ in range(10)]
        return all(pem.strip() in pems[1] for pem in found)

    await until(is_new_everywhere)
    assert len(await brokers.alive()) == 2


async def test_a_broker_that_starts_survives_a_reload(brokers: Brokers) -> None:
    supervisor = await brokers.start("--brokers=2")
    before = await brokers.alive()
    await brokers.kill("1")

    async def is_back() -> bool:
        supervisor.send_signal(signal.SIGHUP)
        return len(await brokers.alive()) == 2

    await until(is_back)
    after = await brokers.alive()
    assert after["2"].process == before["2"].process
    assert brokers.log.count("has ended") == 1, brokers.log


@pytest.mark.parametrize("flag", ["--brokers=2", "--join"])
async def test_first_start_shows_the_key(brokers: Brokers, flag: str) -> None:
    for is_first in (True, False):
        process = brokers.spawn(flag)
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "ready\n")
        (shown,) = [line for line in lines if line.startswith("Endpoint=")]
        assert (brokers.root_key in shown) == is_first
        assert ("root-key" in shown) == (not is_first)
        process.terminate()
        assert await asyncio.to_thread(process.wait, PATIENCE_SECONDS) == exit_codes.OK


async def test_all_brokers_accept_at_one_port(brokers: Brokers) -> None:
    await brokers.start("--brokers=3")
    key = (brokers.data / "root-key").read_text().strip()
    connections = [
        await connect("127.0.0.1", brokers.port, sasl=plain(ROOT_KEY_NAME, key))
        for _ in range(20)
    ]
    pids = [one.process.pid for one in (await brokers.alive()).values()]
    counts = [len(_connections_of(pid, brokers.port)) for pid in pids]
    for one in connections:
        await one.close()
    assert sum(counts) == 20
    assert sum(count > 0 for count in counts) > 1, "more than one broker accepts"


def _connections_of(pid: int, port: int) -> set[str]:
    """Inodes of the connections to that port that a process has."""
    held = {os.readlink(file) for file in Path(f"/proc/{pid}/fd").iterdir()}
    found = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        is_there = fields[1].endswith(f":{port:04X}") and fields[3] == _ESTABLISHED
        if is_there and f"socket:[{fields[9]}]" in held:
            found.add(fields[9])
    return found


async def test_memory_cannot_be_shared(brokers: Brokers) -> None:
    brokers.stores = []
    process = brokers.spawn("--brokers=2", "--store=memory:")
    assert await asyncio.to_thread(process.wait, PATIENCE_SECONDS) == exit_codes.USAGE
    assert "memory:" in brokers.log
