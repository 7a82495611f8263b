"""`twinbus syphon`: a separate process brings a backlog back."""

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pairs.syphon_world import BACKLOG, PRIMARY, bodies, counts, diverted, put, until

from twinbus.cli import exit_codes
from twinbus.testing import Bus

from .command import PATIENCE_SECONDS, environment, run
from .pairs import sides_of


def once(
    buses: tuple[Bus, Bus], folder: Path, *flags: str
) -> subprocess.CompletedProcess[str]:
    name = ("--primary-name", PRIMARY)
    return run("syphon", "--once", *name, *flags, cwd=folder, env=sides_of(buses))


async def test_once_empties_the_backlog(buses: tuple[Bus, Bus], tmp_path: Path) -> None:
    await put(buses[1], BACKLOG, [diverted("orders", f"{n}") for n in range(30)])
    ended = await asyncio.to_thread(once, buses, tmp_path)
    assert (ended.returncode, ended.stderr) == (exit_codes.OK, "")
    assert "30 restored, 0 dead-lettered, from 1 backlog queues" in ended.stdout
    assert await bodies(buses[0], "orders", 30) == [str(n) for n in range(30)]
    assert counts(buses[1], BACKLOG) == (0, 0, 0)


async def test_what_had_to_stay_is_told_to_scripts(
    buses: tuple[Bus, Bus], tmp_path: Path
) -> None:
    paths = ("orders", "missing", "secret")
    await put(buses[1], BACKLOG, [diverted(path) for path in paths])
    flags = ("--json", "--cover", "orders", "--cover", "miss*")
    ended = await asyncio.to_thread(once, buses, tmp_path, *flags)
    assert ended.returncode == exit_codes.BACKLOG
    summary = json.loads(ended.stdout)
    assert summary["restored"] == 1
    assert summary["poison"] == 1
    assert summary["parked_entities"] == ["missing"]
    assert counts(buses[1], BACKLOG) == (0, 1, 1)


def test_a_side_that_is_away_is_named_without_its_key(
    buses: tuple[Bus, Bus], tmp_path: Path
) -> None:
    primary, _ = buses
    primary.stop()
    ended = once(buses, tmp_path)
    primary.start()
    assert ended.returncode == exit_codes.UNREACHABLE
    assert f"The primary localhost:{primary.port} cannot be reached" in ended.stderr
    assert primary.key not in ended.stderr


def test_a_host_that_says_nothing_needs_a_name(
    buses: tuple[Bus, Bus], tmp_path: Path
) -> None:
    ended = run("syphon", cwd=tmp_path, env=sides_of(buses))
    assert ended.returncode == exit_codes.USAGE
    assert "--primary-name" in ended.stderr


def started(buses: tuple[Bus, Bus], folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "twinbus", "syphon", "--primary-name", PRIMARY],
        cwd=folder,
        env=environment(sides_of(buses)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_it_runs_until_it_is_told_to_stop(
    buses: tuple[Bus, Bus], tmp_path: Path, number: signal.Signals
) -> None:
    primary, secondary = buses
    process = started(buses, tmp_path)
    try:
        for body in ("one", "two"):
            await put(secondary, BACKLOG, [diverted("orders", body)])
            assert await bodies(primary, "orders", 1) == [body]
            # It is restored when the backlog does not have it any more.
            await until(lambda: counts(secondary, BACKLOG) == (0, 0, 0))
        process.send_signal(number)
        out, errors = await asyncio.to_thread(
            process.communicate, timeout=PATIENCE_SECONDS
        )
    finally:
        process.kill()
    assert (process.returncode, errors) == (exit_codes.OK, "")
    assert out.startswith("2 restored")
