"""`python -m bench.hop`: what it costs to reach a queue through another broker.

Two brokers, a queue in a store of the first. A client sends and receives the same
messages through the owner, and through the other broker. The processor time of both
brokers together is shown, for each message: sent, received and completed.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from twinbus.amqp.messaging import Data, Message, Properties, encode_message
from twinbus.amqp.sasl import plain
from twinbus.amqp.types import Symbol
from twinbus.client import ClientConnection, connect
from twinbus.client.errors import LinkClosed
from twinbus.client.management import ask_namespace
from twinbus.cluster.announcement import Announcement, announcement_of
from twinbus.store.sqlite_catalog import SqliteCatalog

_KEY = "aGVsbG8taGVsbG8taGVsbG8taGVsbG8taGVsbG8="
_PORTION = 500
_OWNER, _OTHER = "1", "2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Of one message, in microseconds."""

    cpu_us: float
    seconds_us: float


async def main(count: int, size_bytes: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "data")
        bus = _start(folder, data)
        try:
            port = await asyncio.to_thread(_port_when_ready, bus)
            await _measure(data, port, count, size_bytes)
        finally:
            bus.terminate()
            bus.wait(30)


def _start(folder: str, data: Path) -> "subprocess.Popen[str]":
    stores = [f"--store=sqlite:///{data}/{name}.sqlite3" for name in "ab"]
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "twinbus", "serve", "--data=data", "--brokers=2"),
            *(*stores, "--port=0", "--http-port=0", "--tls-port=0", f"--key={_KEY}"),
        ],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
    )


def _port_when_ready(bus: "subprocess.Popen[str]") -> int:
    port = 0
    assert bus.stdout is not None
    for line in bus.stdout:
        if "Endpoint=" in line:
            host = line.split("Endpoint=sb://")[1].split(";")[0].rstrip("/")
            port = int(host.rpartition(":")[2])
        if line.strip() == "ready":
            return port
    raise SystemExit("the brokers did not start")


async def _measure(data: Path, port: int, count: int, size_bytes: int) -> None:
    brokers = await _brokers(data)
    pids = [one.process.pid for one in brokers]
    owner = await _connect(port, _OWNER)
    other = await _connect(port, _OTHER)
    await ask_namespace(owner, "create-queue", {"path": "q", "properties": "{}"})
    payload = encode_message(
        Message(properties=Properties(), body=Data((bytes(size_bytes),)))
    )
    for warm in (owner, other):
        await _until_reached(warm)
        await _round(warm, payload, _PORTION, pids)
    direct = await _round(owner, payload, count, pids)
    through = await _round(other, payload, count, pids)
    for name, cost in (("owner", direct), ("other broker", through)):
        print(
            f"through the {name}: {cost.cpu_us:.1f} us of processor time and "
            f"{cost.seconds_us:.1f} us for each message"
        )
    print(f"the hop costs {through.cpu_us / direct.cpu_us:.2f} times as much")
    await owner.close()
    await other.close()


async def _until_reached(connection: ClientConnection) -> None:
    """Brokers learn within a second which of them has a store."""
    while True:
        try:
            sender = await connection.sender("q")
        except LinkClosed:
            await asyncio.sleep(0.2)
        else:
            await sender.close()
            return


async def _brokers(data: Path) -> list[Announcement]:
    catalog = SqliteCatalog(data / "catalog.sqlite3")
    await catalog.open()
    try:
        found = [announcement_of(record) for record in await catalog.brokers()]
    finally:
        await catalog.close()
    return [one for one in found if one is not None]


async def _connect(port: int, name: str) -> ClientConnection:
    """Several brokers accept from one port: try until it is this one."""
    while True:
        sasl = plain("RootManageSharedAccessKey", _KEY)
        connection = await connect("127.0.0.1", port, sasl=sasl)
        if connection.peer_properties.get(Symbol("twinbus:broker")) == name:
            return connection
        await connection.close()


async def _round(
    connection: ClientConnection, payload: bytes, count: int, pids: list[int]
) -> Cost:
    """Send, receive and complete so many messages."""
    sender = await connection.sender("q")
    receiver = await connection.receiver("q", credit=_PORTION)
    cpu, began = _cpu_seconds(pids), time.perf_counter()
    left = count
    while left > 0:
        portion = min(left, _PORTION)
        await sender.send_many([payload] * portion)
        got = 0
        while got < portion:
            batch = await receiver.receive_batch(portion - got)
            got += len(batch)
            await receiver.settle_confirmed(batch[0].delivery_id, batch[-1].delivery_id)
        left -= portion
    spent = _cpu_seconds(pids) - cpu
    took = time.perf_counter() - began
    await sender.close()
    await receiver.close()
    return Cost(cpu_us=spent / count * 1e6, seconds_us=took / count * 1e6)


def _cpu_seconds(pids: list[int]) -> float:
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=50_000)
    parser.add_argument("--size", type=int, default=1_024)
    chosen = parser.parse_args()
    asyncio.run(main(chosen.count, chosen.size))
