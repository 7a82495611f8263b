"""How running processes are recognized."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from twinbus.store import process_identity
from twinbus.store.process_identity import (
    ProcessIdentity,
    end_process,
    is_running,
    this_process,
)

from .places import DEAD_PID


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def identity_of(pid: int) -> ProcessIdentity:
    start = process_identity._start_of(pid)
    return replace(this_process(), pid=pid, start=start or "")


def test_this_process_runs() -> None:
    me = this_process()
    assert me.pid == os.getpid()
    assert is_running(me)


def test_process_runs_until_it_is_dead(child: subprocess.Popen[bytes]) -> None:
    identity = identity_of(child.pid)
    assert is_running(identity)
    child.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED)
    assert is_running(identity), "a stopped process can go on at any time"
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not is_running(identity), "a zombie cannot"
    child.wait()
    assert not is_running(identity)


def test_other_start_is_another_process() -> None:
    assert not is_running(replace(this_process(), start="another boot:1"))


def test_other_host_is_not_asked() -> None:
    assert not is_running(replace(this_process(), host="elsewhere.example"))


def test_name_with_parentheses_is_read(tmp_path: Path) -> None:
    odd = tmp_path / "odd) Z 1 ("
    odd.symlink_to("/bin/sleep")
    process = subprocess.Popen([str(odd), "60"])
    try:
        assert is_running(identity_of(process.pid))
    finally:
        process.kill()
        process.wait()


def test_without_proc_the_id_decides(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(process_identity, "_PROC", tmp_path)
    monkeypatch.setattr(process_identity, "_BOOT_ID", tmp_path / "none")
    me = this_process()
    assert me.start == ""
    assert is_running(me)
    assert is_running(replace(me, pid=1)), "even if it is not ours"
    assert not is_running(replace(me, pid=DEAD_PID))


# --- ending it ------------------------------------------------------------------------


def test_process_is_ended_though_it_is_stopped(child: subprocess.Popen[bytes]) -> None:
    identity = identity_of(child.pid)
    child.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED)
    assert end_process(identity)
    assert not is_running(identity)
    assert child.wait() == -signal.SIGKILL


def test_process_that_has_ended_needs_no_signal(
    child: subprocess.Popen[bytes],
) -> None:
    identity = identity_of(child.pid)
    child.kill()
    child.wait()
    assert end_process(identity)


@pytest.mark.parametrize(
    "other",
    [
        {"host": "elsewhere.example"},
        {"pid_namespace": "pid:[1]"},
        {"pid_namespace": ""},
        {"start": "another boot:1"},
    ],
)
def test_process_of_elsewhere_is_not_touched(
    child: subprocess.Popen[bytes], other: dict[str, str]
) -> None:
    identity = identity_of(child.pid)
    assert not end_process(replace(identity, **other))
    assert is_running(identity)


def test_another_process_of_the_same_id_is_not_touched(
    child: subprocess.Popen[bytes],
) -> None:
    identity = identity_of(child.pid)
    boot = identity.start.partition(":")[0]
    assert end_process(replace(identity, start=f"{boot}:1")), "that one has ended"
    assert is_running(identity)


def test_own_process_is_not_ended() -> None:
    assert not end_process(this_process())
