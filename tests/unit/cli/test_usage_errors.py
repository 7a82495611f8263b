"""A line that was typed wrongly is answered with what is wrong in it."""

import pytest

from twinbus.cli import exit_codes, main


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("sned x", "No such command 'sned'. Did you mean 'send'? Try 'twinbus --help'"),
        ("keys lits", "Did you mean 'list'? Try 'twinbus keys --help'"),
        ("peek", "Missing argument 'ENTITY'. Try 'twinbus peek --help'"),
        ("keys create a", "Missing option '--right'. Try 'twinbus keys create --help'"),
        (
            "peek orders --count 0",
            "'--count' is '0'; it must be greater than or equal to 1. Try 'twinbus "
            "peek --help'",
        ),
        (
            "peek orders --count all",
            "'--count' is 'all'; it must be a valid integer. Try 'twinbus peek --help'",
        ),
        (
            "receive q --sequence-number 1 --sequence-number x",
            "'--sequence-number' is 'x'; it must be a valid integer. Try",
        ),
        ("peek orders --cuont 1", "No such option: --cuont (Possible options: "),
    ],
)
def test_what_is_wrong_is_named(
    words: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(words.split()) == exit_codes.USAGE
    shown = capsys.readouterr().err
    assert line in shown
    assert shown.count("\n") == 1


@pytest.mark.parametrize("words", ["", "peek", "keys", "keys create", "spark report"])
def test_short_flag_shows_the_same_help(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run([*words.split(), "-h"]) == exit_codes.OK
    short = capsys.readouterr().out
    assert main.run([*words.split(), "--help"]) == exit_codes.OK
    assert short == capsys.readouterr().out
    assert "Examples:" in short
