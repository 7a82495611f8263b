"""What is shown of brokers: `twinbus brokers`, their health and their metrics."""

import asyncio
import base64
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

from crash.server_process import environment

from bench.postgres_server import PostgresServer
from twinbus.cli import exit_codes
from twinbus.cluster.terms import TERM_MS
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
    # That of a file has no term.
    assert {one["lease_term_ms"] for one in found["stores"]} == {0}
    assert {one["lease_age_ms"] for one in found["stores"]} == {None}
    text = (await shown(brokers)).stdout
    assert "broker" in text and str(brokers.stores[0]) in text
    assert text.count("ends with the process") == len(brokers.stores)


async def test_lease_of_a_database_is_shown(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    url = postgres_server.url(f"t_{secrets.token_hex(8)}")
    with Brokers(tmp_path, ("a",), [url]) as brokers:
        await brokers.start("--brokers=2")
        await until(lambda: brokers.owns_all("1", "2"))
        found = await as_json(brokers)
        (lease,) = [one for one in found["stores"] if one["lease_term_ms"]]
        assert lease["location"].startswith("postgresql:")
        assert lease["lease_term_ms"] == TERM_MS
        assert 0 <= lease["lease_age_ms"] < TERM_MS
        assert "6 s, renewed" in (await shown(brokers)).stdout

        async def is_measured() -> bool:
            texts = [(await get(brokers, name, "/metrics"))[1] for name in "12"]
            return all(len(_leases_left(text)) == 1 for text in texts)

        await until(is_measured)
        for name in "12":
            (left,) = _leases_left((await get(brokers, name, "/metrics"))[1])
            assert 0 < left <= TERM_MS / 1000


def _leases_left(metrics: str) -> list[float]:
    found = re.findall(r"^twinbus_store_lease_seconds{.*} (.+)$", metrics, re.MULTILINE)
    return [float(seconds) for seconds in found]


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
