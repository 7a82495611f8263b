"""The unit of systemd: what it says is understood, by systemd and by twinbus."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from twinbus.cli import exit_codes
from twinbus.config.settings import SETTINGS

UNIT = Path(__file__).parents[2] / "deploy" / "twinbus.service"


def entries() -> dict[str, str]:
    lines = [line for line in UNIT.read_text().splitlines() if "=" in line]
    return dict(line.split("=", 1) for line in lines if not line.startswith("#"))


def analyzed(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """What systemd says of the unit. Skips the test where it is not installed."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    # It looks whether the program is there, which is installed later.
    text = re.sub(r"(?m)^(ExecStart=)\S+", r"\1/bin/true", UNIT.read_text())
    copy = folder / UNIT.name
    copy.write_text(text)
    command = ["systemd-analyze", *words, str(copy)]
    return subprocess.run(command, capture_output=True, text=True)


def test_systemd_understands_it(tmp_path: Path) -> None:
    done = analyzed(tmp_path, "verify")
    assert (done.returncode, done.stderr) == (0, "")


def test_systemd_finds_it_well_fenced(tmp_path: Path) -> None:
    # 2.5 of 10; it was 5.6 before capabilities and system calls were restricted.
    done = analyzed(tmp_path, "security", "--offline=true", "--threshold=25")
    if "unrecognized option" in done.stderr:
        pytest.skip("systemd 250 or newer is needed")
    assert done.returncode == 0, done.stdout


def test_it_starts_a_server_with_flags_that_exist() -> None:
    program, command, *flags = entries()["ExecStart"].split()
    assert program.endswith("/bin/twinbus") and command == "serve"
    known = {setting.flag for setting in SETTINGS.values()}
    assert {flag for flag in flags if flag.startswith("--")} <= known
    # Where systemd makes a folder for it.
    assert f"/var/lib/{entries()['StateDirectory']}" in flags


def test_what_another_start_does_not_mend_is_left_alone() -> None:
    prevented = {int(code) for code in entries()["RestartPreventExitStatus"].split()}
    assert prevented == {exit_codes.USAGE, exit_codes.UNREADABLE}
    assert entries()["Restart"] == "on-failure"


def test_it_is_not_root_and_cannot_become_it() -> None:
    assert entries()["User"] == "twinbus"
    assert entries()["NoNewPrivileges"] == "yes"
    assert entries()["ProtectSystem"] == "strict"


def test_its_processes_are_ended_by_the_first_of_them() -> None:
    assert entries()["KillMode"] == "mixed"
    assert entries()["KillSignal"] == "SIGTERM"
