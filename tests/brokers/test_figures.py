"""What is shown of brokers: `twinbus brokers`, their health and their metrics."""

import asyncio
import base64
import json
import os
import signal
import subprocess
import sys
import urllib.request
from typing import Any

from crash.server_process import environment

from twinbus.cli import exit_codes
from twinbus.config.config import ROOT_KEY_NAME

from .processes import Brokers, until


async def shown(brokers: Brokers, *flags: str) -> subprocess.CompletedProcess[str]:
    """What `twinbus brokers` prints."""
    return await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "twinbus", "brokers", "--data=data", *flags],
        cwd=brokers.folder,
        env=environment(),
        capture_output=True,
        text=True,
    )


async def as_json(brokers: Brokers) -> dict[str, Any]:
    done = await shown(brokers, "--json")
    assert done.returncode == exit_codes.OK, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


async def test_command_shows_who_owns_what(brokers: Brokers) -> None:
    await brokers.start("--brokers=2")
    found = await as_json(brokers)
    assert [one["state"] for one in found["brokers"]] == ["alive", "alive"]
    assert sorted(one["name"] for one in found["brokers"]) == ["1", "2"]
    assert sorted(one["owner"] for one in found["stores"]) == ["1", "1", "2", "2"]
    assert all(one["epoch"] > 1 for one in found["stores"])
    assert [one["location"] for one in found["stores"]] == list(
        map(str, brokers.stores)
    )
    text = (await shown(brokers)).stdout
    assert "broker" in text and str(brokers.stores[0]) in text


async def test_command_shows_a_takeover(brokers: Brokers) -> None:
    first = await brokers.start("--join")
    second = await brokers.start("--join")
    names = [f"of process {process.pid}" for process in (first, second)]
    await until(lambda: brokers.owns_all(*names))
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    await until(lambda: brokers.owns_all(names[1]))
    (left,) = [one for one in (await as_json(brokers))["brokers"] if one["store_count"]]
    assert (left["name"], left["took_over_from"]) == (names[1], names[0])
    assert left["took_over_at"]


async def test_command_without_a_catalog_says_so(brokers: Brokers) -> None:
    done = await shown(brokers)
    assert done.returncode == exit_codes.NOT_FOUND
    assert "There is no catalog" in done.stderr


async def get(brokers: Brokers, name: str, path: str) -> tuple[int, str]:
    """The answer of one broker, with all rights."""
    address = (await brokers.alive())[name].address
    key = (brokers.data / "root-key").read_text().strip()
    proof = base64.b64encode(f"{ROOT_KEY_NAME}:{key}".encode()).decode()
    request = urllib.request.Request(
        f"http://{address}{path}", headers={"Authorization": f"Basic {proof}"}
    )
    with await asyncio.to_thread(urllib.request.urlopen, request) as answer:
        return answer.status, answer.read().decode()


async def test_each_broker_tells_its_health_and_what_it_knows(
    brokers: Brokers,
) -> None:
    brokers.stores = brokers.stores[:1]
    await brokers.start("--brokers=2")
    for name in "12":
        assert await get(brokers, name, "/health") == (200, "healthy\n")

    async def is_known() -> bool:
        texts = [(await get(brokers, name, "/metrics"))[1] for name in "12"]
        return all(
            'twinbus_store_owner_epoch{broker="' in text
            and text.count("twinbus_broker_alive{") == 2
            for text in texts
        )

    await until(is_known, 10)
    states = [(await get(brokers, name, "/metrics"))[1] for name in "12"]
    served = ['state="serving",store="a.sqlite3"} 1.0' in text for text in states]
    elsewhere = ['state="elsewhere",store="a.sqlite3"} 1.0' in text for text in states]
    assert sorted(served) == sorted(elsewhere) == [False, True]
