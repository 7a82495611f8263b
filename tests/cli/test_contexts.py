"""`twinbus context`: names for namespaces, and what the other commands make of them."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from twinbus.cli import exit_codes
from twinbus.testing import Bus

from .command import complaint, run


@pytest.fixture(scope="module")
def buses() -> Iterator[tuple[Bus, Bus]]:
    with Bus(store="memory") as first, Bus(store="memory") as second:
        first.create_queue("here")
        second.create_queue("there")
        yield first, second


@pytest.fixture
def command(tmp_path: Path) -> Any:
    def ask(
        *words: str, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        known = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
        return run(*words, cwd=tmp_path, env={**known, **(env or {})})

    return ask


def entities(ended: subprocess.CompletedProcess[str]) -> list[str]:
    assert ended.returncode == exit_codes.OK, ended.stderr
    return [one["path"] for one in json.loads(ended.stdout)]


def test_contexts_are_used_in_their_order(
    command: Any, buses: tuple[Bus, Bus], tmp_path: Path
) -> None:
    first, second = buses
    (tmp_path / "second").write_text(second.connection_string)
    assert command("context", "add", "a", first.connection_string).returncode == 0
    added = command("context", "add", "b", "file:second")
    assert "not the current one" in added.stdout
    listing = ("entities", "list", "--json")
    assert entities(command(*listing)) == ["here"]
    assert entities(command(*listing, "--context", "b")) == ["there"]
    assert entities(command(*listing, env={"TWINBUS_CONTEXT": "b"})) == ["there"]
    text = {"TWINBUS_CONNECTION_STRING": second.connection_string}
    assert entities(command(*listing, env=text)) == ["there"]
    assert command("context", "use", "b").returncode == 0
    assert entities(command(*listing)) == ["there"]
    assert command("send", "there", "x").stdout == "Sent: 1.\n"
    assert command("peek", "there", "--body").stdout == "x\n"
    stats = json.loads(command("stats", "--for", "0.1s", "--json").stdout)
    assert [one["path"] for one in stats["entities"]] == ["there"]
    for ended in (
        command("context", "list"),
        command("context", "show", "a"),
        command("context", "show", "--json"),
    ):
        shown = ended.stdout + ended.stderr
        assert ended.returncode == exit_codes.OK
        assert first.key not in shown and second.key not in shown
    again = command("context", "add", "b", "file:second").stdout
    assert again.startswith("Replaced 'b'")
    removed = command("context", "remove", "b")
    assert removed.returncode == 0
    assert "It was the current one" in removed.stdout
    line = complaint(command("context", "show"), exit_codes.NOT_FOUND)
    assert "There is no current context" in line
    gone = command("context", "add", "gone", "file:/nowhere/it")
    assert "note: The context 'gone' can't be read: /nowhere/it" in gone.stderr
    assert "file:/nowhere/it (can't be read)" in command("context", "list").stdout
    command("context", "remove", "gone")
    known = complaint(command("context", "use", "b"), exit_codes.NOT_FOUND)
    assert "there are: a" in known


def test_wrong_connection_string_is_not_kept(command: Any, tmp_path: Path) -> None:
    line = complaint(command("context", "add", "a", "hush"), exit_codes.USAGE)
    assert "not complete" in line and "hush" not in line
    words = ("context", "add", "a", "file:b", "--ca-file", "nowhere.pem")
    assert "no file nowhere.pem" in complaint(command(*words), exit_codes.USAGE)
    assert not (tmp_path / "config").exists()


def test_shell_completes_contexts_and_entities(
    command: Any, buses: tuple[Bus, Bus]
) -> None:
    command("context", "add", "site-a", buses[0].connection_string)

    def completed(words: str) -> list[str]:
        count = str(len(words.split(" ")) - 1)
        asked = {"COMP_WORDS": words, "COMP_CWORD": count}
        ended = command(env={**asked, "_TWINBUS_COMPLETE": "complete_bash"})
        return str(ended.stdout).split()

    assert completed("twinbus context use s") == ["site-a"]
    assert completed("twinbus peek h") == ["here"]
    assert completed("twinbus wat") == ["watch"]
    assert completed("twinbus send") == ["send"]
    assert completed("twinbus receive q --settle de") == ["dead-letter", "defer"]
    assert completed("twinbus keys create k --right S") == ["Send"]
    assert completed("twinbus keys regenerate Root")[0].startswith("RootManage")
    assert completed("twinbus faults set s") == ["slow"]
    assert completed("twinbus completion f") == ["fish"]
    assert completed("twinbus send q --body-type ush") == ["ushort"]
    buses[0].create_topic("news")
    buses[0].create_subscription("news", "eu")
    rule = "twinbus entities create rule"
    assert completed(f"{rule} n") == ["news"]
    assert completed(f"{rule} news e") == ["eu"]
    assert completed("twinbus keys list --entity ") == ["here", "news"]
    buses[0].delete_topic("news")
    gone = "Endpoint=sb://localhost:1;SharedAccessKeyName=k;SharedAccessKey=x;"
    command("context", "add", "site-a", gone + "UseDevelopmentEmulator=true")
    assert completed("twinbus peek h") == []
    assert "complete" in command("completion", "bash").stdout
    assert "'tcsh'" in complaint(command("completion", "tcsh"), exit_codes.USAGE)
