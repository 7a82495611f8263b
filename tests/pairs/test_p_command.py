"""Pairs from the command line: status, clean, dead letters, and the syphon. P4, P12."""

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus.aio import ServiceBusClient
from cli.command import environment, run

from .harness_audit import assert_once_each, eventually, ids_of
from .harness_site import ROOT_KEY
from .harness_world import World, message, numbered

BACKLOG_EXIT = 11
UNREACHABLE_EXIT = 7


def _files(world: World, folder: Path) -> tuple[str, ...]:
    """The flags of both sides; connection strings are kept out of process lists."""
    primary, secondary = folder / "primary.txt", folder / "secondary.txt"
    primary.write_text(world.primary.connection_string(world.way.port))
    secondary.write_text(world.secondary.connection_string(world.secondary_way.port))
    return (
        *("--primary", f"file:{primary}", "--secondary", f"file:{secondary}"),
        *("--primary-name", world.name),
    )


async def _command(
    folder: Path, world: World, *arguments: str
) -> subprocess.CompletedProcess[str]:
    trust = {
        "SSL_CERT_FILE": str(world.secondary.ca_file),
        "REQUESTS_CA_BUNDLE": str(world.secondary.ca_file),
    }
    return await asyncio.to_thread(run, *arguments, cwd=folder, env=trust)


async def _diverted(world: World, queue: str, count: int) -> None:
    client = await world.pair()
    world.way.refuse()
    await client.get_queue_sender(queue).send_messages(numbered("m", count))
    await world.closed(client)
    world.way.heal()


async def test_pair_status_tells_what_waits(world: World, tmp_path: Path) -> None:
    """P12: depth by backlog queue, and an exit code for scripts."""
    flags = _files(world, tmp_path)
    await world.closed(await world.pair())
    idle = await _command(tmp_path, world, "pair", "status", *flags, "--json")
    assert idle.returncode == 0, idle.stderr
    queue = world.queue()
    await _diverted(world, queue, 5)
    waiting = await _command(tmp_path, world, "pair", "status", *flags, "--json")
    assert waiting.returncode == BACKLOG_EXIT, waiting.stderr
    seen = json.loads(waiting.stdout)
    assert (seen["waiting"], seen["dead_letters"]) == (5, 0)
    assert seen["entities"] == [{"path": queue, "waiting": 5, "parked": 0}]
    assert [one["path"] for one in seen["queues"]] == [
        world.backlog_path(index) for index in range(2)
    ]
    assert 0 < seen["oldest_age_ms"] < 60_000
    assert seen["primary"]["is_reachable"] and seen["secondary"]["is_reachable"]
    assert ROOT_KEY not in waiting.stdout + waiting.stderr
    text = await _command(tmp_path, world, "pair", "status", *flags)
    assert text.returncode == BACKLOG_EXIT
    assert "5" in text.stdout


async def test_pair_status_tells_who_does_not_answer(
    world: World, tmp_path: Path
) -> None:
    """P12: and still shows the backlog."""
    flags = _files(world, tmp_path)
    await _diverted(world, world.queue(), 3)
    world.way.refuse()
    away = await _command(tmp_path, world, "pair", "status", *flags, "--json")
    assert away.returncode == UNREACHABLE_EXIT, away.stderr
    seen = json.loads(away.stdout)
    assert not seen["primary"]["is_reachable"]
    assert seen["waiting"] == 3


async def test_pair_clean_removes_empty_queues_only(
    world: World, tmp_path: Path
) -> None:
    """P4: nothing is cleaned up unasked; asked, no message is lost."""
    flags = _files(world, tmp_path)
    await world.closed(await world.pair(backlog_queue_count=4))
    text = world.secondary.connection_string()
    async with (
        ServiceBusClient.from_connection_string(text) as client,
        client.get_queue_sender(world.backlog_path(1)) as sender,
    ):
        await sender.send_messages(message("waits"))

    def left() -> list[str]:
        names = world.secondary.queue_names()
        return sorted(name for name in names if name.startswith(f"{world.name}/"))

    refused = await _command(tmp_path, world, "pair", "clean", *flags)
    assert refused.returncode != 0
    dry = await _command(tmp_path, world, "pair", "clean", *flags, "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert len([name for name in left() if name[-1].isdigit()]) == 4
    done = await _command(tmp_path, world, "pair", "clean", *flags, "--yes")
    assert done.returncode == 0, done.stderr
    assert left() == [world.backlog_path(1)]
    assert ids_of(await world.at_secondary.peeked(world.backlog_path(1))) == ["waits"]


async def test_dead_letters_lists_poison(world: World, tmp_path: Path) -> None:
    """P12: with the reason, for all backlog queues at once."""
    flags = _files(world, tmp_path)
    await world.pair(backlog_queue_count=1, enable_syphon=True)
    text = world.secondary.connection_string()
    async with (
        ServiceBusClient.from_connection_string(text) as client,
        client.get_queue_sender(world.backlog_path(0)) as sender,
    ):
        await sender.send_messages(message("poison"))

    async def listed() -> Any:
        arguments = ("dead-letters", "list", "--backlog", *flags[2:], "--json")
        outcome = await _command(tmp_path, world, *arguments)
        assert outcome.returncode == 0, outcome.stderr
        found = json.loads(outcome.stdout)
        return outcome.stdout if "poison" in outcome.stdout and found else None

    shown = await eventually(listed, "the poison message in the list")
    assert "eason" in shown
    assert world.backlog_path(0) in shown


@contextmanager
def _syphon(world: World, folder: Path, *flags: str) -> Iterator[subprocess.Popen[str]]:
    """`twinbus syphon` as a process, from its start to its end."""
    trust = {"SSL_CERT_FILE": str(world.secondary.ca_file)}
    with (folder / "syphon.log").open("a") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "twinbus", "syphon", *flags],
            cwd=folder,
            env=environment(trust),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            text=True,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(10)


async def test_the_syphon_as_a_command_drains_the_backlog(
    world: World, tmp_path: Path
) -> None:
    """P12: a process of its own; SIGTERM ends it with 0."""
    queue = world.queue()
    flags = _files(world, tmp_path)
    await _diverted(world, queue, 30)
    with _syphon(world, tmp_path, *flags) as process:
        back = await world.at_primary.received(queue, 30)
        assert_once_each([f"m-{n}" for n in range(30)], back)
        await world.backlog_has(0)
        process.send_signal(signal.SIGTERM)
        code = await asyncio.to_thread(process.wait, 15)
    assert code == 0, (tmp_path / "syphon.log").read_text()


async def test_a_syphon_killed_again_and_again_restores_once(
    world: World, tmp_path: Path
) -> None:
    """P12: between the primary's word and its own settlement it may die anywhere."""
    queue = world.queue()
    flags = _files(world, tmp_path)
    # Locks of a syphon that was killed end with these queues' short ones.
    for index in range(2):
        path = world.backlog_path(index)
        world.secondary.create_queue(path, lock_duration=timedelta(seconds=5))
    await _diverted(world, queue, 300)
    world.secondary_way.delay(0.02)
    for least in (1, 100, 200):
        with _syphon(world, tmp_path, *flags) as process:
            await eventually(
                lambda wanted=least: world.primary.message_count(queue) >= wanted,
                f"{least} messages restored",
            )
            process.kill()
    world.secondary_way.heal()
    with _syphon(world, tmp_path, *flags):
        await eventually(world.backlog_is_empty, "an empty backlog", seconds=60)
    found = await world.at_primary.has(queue, 300)
    assert_once_each([f"m-{n}" for n in range(300)], found)


async def test_the_syphon_waits_for_a_primary_that_is_away(
    world: World, tmp_path: Path
) -> None:
    """P12, A5: started during the outage, it goes on after it."""
    queue = world.queue()
    flags = _files(world, tmp_path)
    await _diverted(world, queue, 5)
    world.way.refuse()
    with _syphon(world, tmp_path, *flags) as process:
        await asyncio.sleep(3)
        assert process.poll() is None, (tmp_path / "syphon.log").read_text()
        world.way.heal()
        back = await world.at_primary.received(queue, 5)
    assert_once_each([f"m-{n}" for n in range(5)], back)


@pytest.mark.parametrize("side", ["primary", "secondary"])
async def test_a_wrong_key_of_the_syphon_is_told(
    world: World, tmp_path: Path, side: str
) -> None:
    """P1, P12: at once, not in the next outage: it ends with 8, or says so."""
    flags = _files(world, tmp_path)
    await world.closed(await world.pair())
    text = (tmp_path / f"{side}.txt").read_text()
    (tmp_path / f"{side}.txt").write_text(
        re.sub("SharedAccessKey=[^;]+", "SharedAccessKey=d3Jvbmc=", text)
    )
    log = tmp_path / "syphon.log"
    with _syphon(world, tmp_path, *flags) as process:
        told = re.compile(r"401|credential|unauthorized|authenticat", re.IGNORECASE)
        await eventually(
            lambda: told.search(log.read_text()) or process.poll() is not None,
            "a word about the key",
        )
        assert process.poll() in (None, 8), log.read_text()
    assert "d3Jvbmc=" not in log.read_text()
