"""The log of `twinbus serve`: one line per record, whatever is in it."""

import logging
import sys

from twinbus.cli.log_lines import LogLine


def line(text: str, *, is_failure: bool = False) -> str:
    failure = sys.exc_info() if is_failure else None
    record = logging.LogRecord(
        "bus", logging.INFO, "file", 1, "refused: %s", (text,), failure
    )
    return LogLine().format(record)


def test_what_a_client_names_begins_no_line() -> None:
    written = line("x\r\n2026-01-01 ERROR bus: forged\u2028\x1b[2J\u202egnp")
    assert len(written.splitlines()) == 1
    assert written.isprintable()
    assert r"x\r\n2026-01-01 ERROR bus: forged\u2028\x1b[2J\u202egnp" in written


def test_other_text_is_left_as_it_is() -> None:
    assert line("caf\u00e9 \\n \U0001f600").endswith(
        "refused: caf\u00e9 \\n \U0001f600"
    )


def test_traceback_follows_in_lines_of_its_own() -> None:
    try:
        raise ValueError("why")
    except ValueError:
        lines = line("x", is_failure=True).splitlines()
    assert lines[1] == "Traceback (most recent call last):"
    assert lines[-1] == "ValueError: why"
