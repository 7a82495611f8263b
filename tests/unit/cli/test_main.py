"""What commands import, and how they end, in every case."""

import subprocess
import sys

import pytest
import typer

from twinbus import __version__, compilation
from twinbus.cli import exit_codes, main
from twinbus.cli.failure import Failure, complain


def test_the_version_tells_which_form_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--version"]) == exit_codes.OK
    shown = capsys.readouterr().out
    assert shown == f"twinbus {__version__} ({compilation.describe()})\n"


def test_a_command_imports_the_flags_of_no_other() -> None:
    """Nor anything that only its work needs."""
    code = (
        "import sys; from twinbus.cli.main import run; run(['env', '--help']);"
        "print(*sorted(name for name in sys.modules if name.endswith('_command')));"
        "assert 'asyncio' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "twinbus.cli.env_command"


def test_words_before_the_command_are_understood(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main.run(["--version", "serve"]) == exit_codes.OK
    assert main.run(["--nothing", "serve"]) == exit_codes.USAGE
    assert "--nothing" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["entities"], ["entities", "create"]])
def test_a_group_alone_shows_its_help(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(words) == exit_codes.OK
    alone = capsys.readouterr().out
    main.run([*words, "--help"])
    assert alone == capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "right"),
    [
        (["pair", "status"], "Manage"),
        (["syphon"], "Manage"),
        # Proven by tests/spark/test_syphon.py, with a key that has no other right.
        (["spark", "syphon"], "Listen"),
    ],
)
def test_the_help_names_the_right_that_the_secondary_asks_for(
    words: list[str], right: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main.run([*words, "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert f"Connection string of the secondary, with the {right} right" in shown


@pytest.mark.parametrize(
    ("trouble", "code", "line"),
    [
        (Failure("It is\n  so.", 42), 42, "twinbus: It is so.\n"),
        (typer.Abort(), exit_codes.FAILED, "twinbus: stopped\n"),
        (typer.BadParameter("no."), exit_codes.USAGE, None),
        (typer.Exit(7), 7, ""),
    ],
)
def test_trouble_is_one_line_and_a_code(
    trouble: Exception,
    code: int,
    line: str | None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    troubled = typer.Typer()

    @troubled.command()
    def command() -> None:
        raise trouble

    monkeypatch.setattr(main, "command_line", lambda names: troubled)
    assert main.run([]) == code
    shown = capsys.readouterr().err
    if line is None:
        assert shown.count("\n") == 1
        assert "Try 'twinbus --help'." in shown
    else:
        assert shown == line


def test_a_bug_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = typer.Typer()

    @broken.command()
    def command() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(main, "command_line", lambda names: broken)
    with pytest.raises(ZeroDivisionError):
        main.run([])


def test_a_complaint_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    complain("one\ntwo\n\nthree")
    assert capsys.readouterr().err == "twinbus: one two three\n"
