"""S7: the oldest supported PySpark and the newest one behave the same.

In Spark, everything before the start offset of a batch was processed. Spark does not
document this, so what depends on it is tested with each version. The oldest is under
build/, where scripts/setup_spark.sh puts it; it shadows the installed one.
"""

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyspark
import pytest

from .harness import Namespace, numbered

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("version_contract.py")


def pinned(group: str) -> str:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    versions: list[str] = [
        requirement.removeprefix("pyspark==")
        for requirement in groups[group]
        if requirement.startswith("pyspark==")
    ]
    [version] = versions
    return version


NEWEST, OLDEST = pinned("spark"), pinned("spark-oldest")


class Program:
    """The contract's program, with its lines as they come."""

    def __init__(self, version: str, arguments: list[str], log: Path) -> None:
        self.version = version
        path = [str(ROOT / "src")]
        if version != pyspark.__version__:
            folder = ROOT / "build" / f"pyspark-{version}"
            assert folder.is_dir(), f"{folder} is missing: run scripts/setup_spark.sh"
            path.insert(0, str(folder))
        ours = {k: v for k, v in os.environ.items() if k != "SPARK_HOME"}
        self._log = log
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                [sys.executable, str(PROGRAM), *arguments],
                env={**ours, "PYTHONPATH": os.pathsep.join(path)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                # The JVM and the workers are of its group, and end with it.
                start_new_session=True,
            )

    def next(self, step: str) -> dict[str, Any]:
        """The next line, which must be of this step."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        found: dict[str, Any] = json.loads(line) if line else {}
        assert found.get("step") == step, f"{line}{self._log.read_text()[-4000:]}"
        return found

    def end_input(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    def ended(self) -> int:
        return self._process.wait(120)

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


@pytest.fixture(params=[OLDEST, NEWEST])
def program(
    request: pytest.FixtureRequest, namespace: Namespace, tmp_path: Path
) -> Iterator[Program]:
    for name in ("available", "copies", "quiet"):
        namespace.bus.create_queue(name)
    namespace.send("available", numbered("a", range(30)))
    namespace.send("quiet", numbered("q", range(10)))
    arguments = [namespace.credential, str(tmp_path)]
    started = Program(request.param, arguments, tmp_path / "log")
    yield started
    started.kill()


def test_contract_is_kept(program: Program, namespace: Namespace) -> None:
    versions = program.next("versions")
    assert versions["driver"] == versions["worker"] == program.version

    read = program.next("available")
    assert sorted(read["bodies"]) == sorted(numbered("a", range(30)))
    assert namespace.peek("available") == []
    assert sorted(namespace.bodies("copies")) == sorted(numbered("a", range(30)))

    # No other message comes, and no other batch: the one there was is settled.
    assert program.next("batch")["count"] == 10
    until_empty(namespace, "quiet")
    program.end_input()
    assert program.next("quiet") == {"step": "quiet", "is_active": True, "error": ""}
    assert program.ended() == 0


def until_empty(namespace: Namespace, entity: str) -> None:
    """A trigger is a second; a machine may be slow."""
    ends_at = time.monotonic() + 120
    while namespace.peek(entity):
        assert time.monotonic() < ends_at, f"'{entity}' is not settled"
