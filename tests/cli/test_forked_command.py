"""A command that is forked is to others what a command is that was just started."""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import forked_command
import pytest

from twinbus.cli import exit_codes

from .command import PATIENCE_SECONDS, environment

SERVE = ("serve", "--port=0", "--http-port=0", "--tls-port=0")


@pytest.fixture(params=["forked", "fresh"])
def started(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., forked_command.AnyProcess]:
    """Starts commands, in each of both ways."""
    if request.param == "fresh":
        monkeypatch.setenv(forked_command.FRESH, "1")
    else:
        monkeypatch.delenv(forked_command.FRESH, raising=False)

    def start(*arguments: str, **env: str) -> forked_command.AnyProcess:
        with (tmp_path / "stderr").open("w") as errors:
            return forked_command.start(
                arguments, cwd=tmp_path, env=environment(env), stderr=errors
            )

    return start


def serving(process: forked_command.AnyProcess) -> forked_command.AnyProcess:
    assert process.stdout is not None
    assert "ready\n" in iter(process.stdout.readline, "")
    return process


def test_it_prints_and_ends(started: Callable[..., forked_command.AnyProcess]) -> None:
    process = started("--version")
    printed, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert printed.startswith("twinbus ")
    assert (process.poll(), process.returncode) == (0, 0)


def test_exit_code_and_complaint_are_its_own(
    started: Callable[..., forked_command.AnyProcess], tmp_path: Path
) -> None:
    process = started("serve", "--port=none")
    assert process.communicate(timeout=PATIENCE_SECONDS)[0] == ""
    assert process.returncode == exit_codes.USAGE
    (line,) = (tmp_path / "stderr").read_text().splitlines()
    assert line.startswith("twinbus: ")


def test_environment_and_folder_are_those_asked_for(
    started: Callable[..., forked_command.AnyProcess], tmp_path: Path
) -> None:
    process = serving(started(*SERVE, TWINBUS_DATA="somewhere"))
    assert os.readlink(f"/proc/{process.pid}/cwd") == str(tmp_path)
    assert (tmp_path / "somewhere" / "root-key").exists()
    process.kill()
    process.communicate(timeout=PATIENCE_SECONDS)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_stop_it(
    started: Callable[..., forked_command.AnyProcess], number: signal.Signals
) -> None:
    process = serving(started(*SERVE))
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    process.send_signal(number)
    process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == exit_codes.OK


def test_a_signal_that_ends_it_is_told(
    started: Callable[..., forked_command.AnyProcess],
) -> None:
    process = serving(started(*SERVE))
    process.kill()
    process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == -signal.SIGKILL
    process.kill()


def test_it_has_no_descriptor_of_another_child(
    started: Callable[..., forked_command.AnyProcess],
) -> None:
    """A server that runs keeps nobody's output open."""
    servers = [serving(started(*SERVE, f"--data={name}")) for name in "ab"]
    for _ in range(2):
        other = started("--version")
        assert other.communicate(timeout=PATIENCE_SECONDS)[0].endswith(")\n")
    counts = {len(os.listdir(f"/proc/{process.pid}/fd")) for process in servers}
    assert len(counts) == 1
    for process in servers:
        process.kill()
        process.communicate(timeout=PATIENCE_SECONDS)
