"""Flags of `twinbus spark report` that are wrong, before anything is started."""

import pytest

from twinbus.cli import exit_codes
from twinbus.cli.main import run


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--since", "yesterday"), "--since is 'yesterday'"),
        (("--until", "2026-13-01"), "--until is '2026-13-01'"),
        (
            ("--since", "2026-11-01T10:59", "--until", "2026-11-01T10"),
            "--until must be after --since",
        ),
    ],
)
def test_a_wrong_time_is_named(
    flags: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["spark", "report", "oplog", *flags]) == exit_codes.USAGE
    assert said in capsys.readouterr().err
