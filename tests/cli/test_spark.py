"""`twinbus spark`: the Spark syphon as a command, and what it needs."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pairs.syphon_world import BACKLOG, PRIMARY, bodies, counts, diverted, put

from twinbus.cli import exit_codes
from twinbus.testing import Bus

from .command import environment, run
from .pairs import sides_of

pytest.importorskip("pyspark")

# A bound against hanging; never waited out. Spark takes its time to start.
SPARK_SECONDS = 580.0


def syphon(
    buses: tuple[Bus, Bus], folder: Path, *flags: str, **variable: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *(sys.executable, "-m", "twinbus", "spark", "syphon"),
            *("--primary-name", PRIMARY, "--timeout", "20s", *flags),
        ],
        cwd=folder,
        env=environment({**sides_of(buses), **variable}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SPARK_SECONDS,
    )


@pytest.mark.timeout(600)
async def test_what_had_to_stay_is_told_to_scripts(
    buses: tuple[Bus, Bus], tmp_path: Path
) -> None:
    """And no word of a secret, wherever Spark writes."""
    primary, secondary = buses
    primary.create_queue("billing", status="SendDisabled")
    paths = ("orders", "missing", "secret", "billing")
    await put(secondary, BACKLOG, [diverted(path) for path in paths])
    secondary.advance(1)
    events = tmp_path / "events"
    events.mkdir()
    flags = (
        *("--json", "--cover", "[!s]*", "--checkpoint", "checkpoint"),
        *("--master", "local[2]", "--conf", "spark.eventLog.enabled=true"),
        *("--conf", f"spark.eventLog.dir={events.as_uri()}"),
    )
    ended = await asyncio.to_thread(syphon, buses, tmp_path, *flags)
    assert ended.returncode == exit_codes.BACKLOG, ended.stderr
    summary = json.loads(ended.stdout)
    assert (summary["restored"], summary["left"]) == (1, 0)
    assert summary["dead_lettered"] == {
        "MessagingEntityNotFound": 1,
        "PathNotCovered": 1,
    }
    assert summary["parked"] == {"billing": 1}
    assert counts(secondary, BACKLOG) == (0, 1, 2)
    assert len(await bodies(primary, "orders", 1)) == 1
    assert primary.key not in ended.stderr
    check_files(tmp_path, primary.key, "events", "checkpoint")


def check_files(folder: Path, key: str, *written: str) -> None:
    """In these folders something was written, and the key nowhere."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    for name in written:
        assert any(folder / name in file.parents for file in files), name
    for file in files:
        assert key.encode() not in file.read_bytes(), file


def test_a_side_that_is_away_is_named_without_its_key(
    buses: tuple[Bus, Bus], tmp_path: Path
) -> None:
    primary, _ = buses
    primary.stop()
    ended = syphon(buses, tmp_path, "--timeout", "2s")
    primary.start()
    assert ended.returncode == exit_codes.UNREACHABLE, ended.stderr
    assert "The primary cannot be reached" in ended.stderr
    assert primary.key not in ended.stderr


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (("--conf", "spark.driver.bindAddress=192.0.2.77"), "Spark did not start: "),
        (("--checkpoint", "nowhere://checkpoint"), "Spark: "),
    ],
)
def test_what_java_says_is_told_in_a_line(
    buses: tuple[Bus, Bus], tmp_path: Path, flags: tuple[str, ...], text: str
) -> None:
    ended = syphon(buses, tmp_path, "--master", "local[2]", *flags)
    assert ended.returncode == exit_codes.FAILED, ended.stderr
    [said] = [line for line in ended.stderr.splitlines() if line.startswith("twinbus:")]
    assert text in said and "xception" in said
    assert "Traceback" not in ended.stderr


# --- without Spark ------------------------------------------------------------------


def test_a_side_that_will_not_do_is_told_before_spark_starts(
    buses: tuple[Bus, Bus], tmp_path: Path
) -> None:
    _, secondary = buses
    wrong = secondary.connection_string.replace(secondary.key, "wrong")
    ended = syphon(buses, tmp_path, TWINBUS_SECONDARY=wrong)
    assert ended.returncode == exit_codes.UNAUTHORIZED, ended.stderr
    [line] = ended.stderr.splitlines()
    assert line.startswith("twinbus: The secondary: ")


def test_a_host_that_says_nothing_needs_a_name(
    buses: tuple[Bus, Bus], tmp_path: Path
) -> None:
    ended = run("spark", "syphon", cwd=tmp_path, env=sides_of(buses))
    assert ended.returncode == exit_codes.USAGE
    assert "--primary-name" in ended.stderr


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (("--timeout", "soon"), "--timeout"),
        (("--missing-entity-grace", "-1s"), "--missing-entity-grace"),
        (("--max-messages-per-batch", "0"), "--max-messages-per-batch"),
        (("--conf", "memory"), "--conf is 'memory'"),
        (("--master", "localhost"), "--master is 'localhost'"),
        (("--master", "host:7077"), "--master is 'host:7077'"),
    ],
)
def test_a_flag_that_is_wrong_is_named(
    buses: tuple[Bus, Bus], tmp_path: Path, flags: tuple[str, ...], text: str
) -> None:
    name = ("--primary-name", PRIMARY)
    ended = run("spark", "syphon", *name, *flags, cwd=tmp_path, env=sides_of(buses))
    assert ended.returncode == exit_codes.USAGE, ended.stderr
    assert text in ended.stderr


def test_without_java_it_says_what_to_install(
    buses: tuple[Bus, Bus], tmp_path: Path
) -> None:
    ended = syphon(buses, tmp_path, PATH=str(tmp_path), JAVA_HOME="")
    assert ended.returncode == exit_codes.FAILED
    assert "apt-get install default-jre-headless" in ended.stderr


def test_without_pyspark_it_says_what_to_install(
    buses: tuple[Bus, Bus], tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as util\n"
        "find = util.find_spec\n"
        "util.find_spec = lambda n, *p: None if n == 'pyspark' else find(n, *p)\n"
    )
    path = f"{tmp_path}{os.pathsep}{environment()['PYTHONPATH']}"
    ended = syphon(buses, tmp_path, PYTHONPATH=path)
    assert ended.returncode == exit_codes.FAILED
    assert "needs pyspark: pip install 'twinbus[spark]'" in ended.stderr


def test_a_package_has_all_that_executors_import(tmp_path: Path) -> None:
    """In a Python that has nothing of it but pyarrow and pyspark."""
    ended = run("spark", "package", "twinbus.zip", cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (exit_codes.OK, "")
    program = (
        "import sys\n"
        "sys.path.insert(0, 'twinbus.zip')\n"
        "import pyspark_servicebus, twinbus.spark.syphon.appending as found\n"
        "import twinbus.spark.source, twinbus.spark.sink, twinbus.compilation\n"
        "print(found.__file__, twinbus.compilation.describe())\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={name: value for name, value in environment().items() if name == "PATH"},
        capture_output=True,
        text=True,
        check=True,
    )
    file, _, form = told.stdout.partition(" ")
    assert file == "twinbus.zip/twinbus/spark/syphon/appending.py"
    assert form.startswith("plain")


def test_a_package_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    ended = run("spark", "package", tmp_path / "missing" / "a.zip", cwd=tmp_path)
    assert ended.returncode == exit_codes.FAILED
    assert "No such file or directory" in ended.stderr
