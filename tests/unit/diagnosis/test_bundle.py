"""A4: a diagnosis is whole, of limited size and number, and without secrets."""

import json
from pathlib import Path

import pytest

from twinbus.diagnosis import bundle
from twinbus.diagnosis.bundle import write_bundle
from twinbus.diagnosis.sickness import Sickness

WHY = Sickness("stall", "the owner does nothing; its key is hunter22")
SECRETS = ("hunter22", "", "x")


def failing() -> str:
    raise RuntimeError("no luck with hunter22")


def write(data: Path, now: int = 0, **parts: str) -> Path:
    made = {name: (lambda text=text: text) for name, text in parts.items()}
    return write_bundle(data, WHY, made, SECRETS, now=now, kept_count=3)


def test_parts_are_there_without_secrets(tmp_path: Path) -> None:
    folder = write(tmp_path, stacks="in hunter22, line x")
    assert folder.name == "19700101T000000.000-stall"
    assert (folder / "stacks").read_text() == "in ***, line x"
    index = json.loads((folder / "index.json").read_text())
    assert index["text"] == "the owner does nothing; its key is ***"
    assert index["parts"] == {"stacks": {"bytes": 14, "is_cut": False}}
    assert folder.stat().st_mode & 0o077 == 0


def test_part_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    parts = {"broken": failing, "fine": lambda: "text"}
    folder = write_bundle(tmp_path, WHY, parts, SECRETS, now=0, kept_count=3)
    index = json.loads((folder / "index.json").read_text())
    assert index["parts"]["broken"] == {"missing": "RuntimeError: no luck with ***"}
    assert (folder / "fine").read_text() == "text"


def test_long_part_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "DIAGNOSIS_PART_BYTES", 4)
    folder = write(tmp_path, long="0123456789")
    assert (folder / "long").read_text() == "0123"
    index = json.loads((folder / "index.json").read_text())
    assert index["parts"]["long"] == {"bytes": 10, "is_cut": True}


def test_oldest_are_removed(tmp_path: Path) -> None:
    folders = [write(tmp_path, now, part="text") for now in range(5)]
    left = sorted((tmp_path / "diagnosis").iterdir())
    assert left == folders[-3:]
