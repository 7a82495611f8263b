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


def test_systemd_understands_it(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    # It looks whether the program is there, which is installed later.
    text = re.sub(r"(?m)^(ExecStart=)\S+", r"\1/bin/true", UNIT.read_text())
    copy = tmp_path / UNIT.name
    copy.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", copy], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


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
