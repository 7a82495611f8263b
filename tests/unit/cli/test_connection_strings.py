"""Where connection strings come from, and that they stay secret."""

from pathlib import Path

import pytest

from twinbus.cli import exit_codes
from twinbus.cli.connection_strings import SECONDARY, connection_string
from twinbus.cli.failure import Failure

TEXT = "Endpoint=sb://site-b.example;SharedAccessKeyName=n;SharedAccessKey=hush"


def found(given: str | None, **environment: str) -> str:
    return connection_string(given, "--secondary", SECONDARY, environment)


def refusal(given: str | None, **environment: str) -> str:
    with pytest.raises(Failure) as failure:
        found(given, **environment)
    assert failure.value.exit_code == exit_codes.USAGE
    assert "hush" not in str(failure.value)
    return str(failure.value)


def test_the_flag_goes_before_the_variable() -> None:
    assert found(TEXT, TWINBUS_SECONDARY="Endpoint=other") == TEXT
    assert found(None, TWINBUS_SECONDARY=TEXT) == TEXT


def test_a_file_may_have_it(tmp_path: Path) -> None:
    file = tmp_path / "secondary"
    file.write_text(f"{TEXT}\n")
    assert found(f"file:{file}") == TEXT
    assert found(None, TWINBUS_SECONDARY=f"file:{file}") == TEXT


def test_none_at_all_says_where_it_is_looked_for() -> None:
    text = refusal(None)
    assert "--secondary" in text
    assert "TWINBUS_SECONDARY" in text


def test_what_is_none_is_not_repeated() -> None:
    assert "--secondary is not a connection string" in refusal("hush")
    assert "TWINBUS_SECONDARY is not" in refusal(None, TWINBUS_SECONDARY="hush")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    assert "No such file" in refusal(f"file:{tmp_path / 'missing'}")
    (tmp_path / "odd").write_bytes(b"\xff\xfe")
    assert "not a text" in refusal(f"file:{tmp_path / 'odd'}")
