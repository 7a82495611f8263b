"""What the end of a process is called."""

import signal

from twinbus.cli import exit_codes


def test_exit_codes_have_names() -> None:
    assert exit_codes.named(exit_codes.IN_USE) == "exit code 4, in use"
    assert exit_codes.named(exit_codes.STORE_FAILED) == "exit code 6, store failed"


def test_signals_have_names() -> None:
    assert exit_codes.named(-signal.SIGKILL) == "signal SIGKILL"


def test_unknown_code_is_a_number() -> None:
    assert exit_codes.named(99) == "exit code 99"
