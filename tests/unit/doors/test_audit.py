"""One line for each call: who, what and how it ended."""

import pytest

from twinbus.doors.audit import audited
from twinbus.errors import EntityAlreadyExists


def note(error: Exception | None, *, looks: bool = False) -> None:
    with audited("192.0.2.1:5", "root", "create-queue 'orders'", looks=looks):
        if error is not None:
            raise error


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (None, "done"),
        (EntityAlreadyExists(), "refused, EntityAlreadyExists"),
        (RuntimeError(), "failed"),
    ],
)
def test_result_is_told(
    caplog: pytest.LogCaptureFixture, error: Exception | None, result: str
) -> None:
    caplog.set_level("INFO", "twinbus.audit")
    try:
        note(error)
    except Exception as raised:
        assert raised is error
    line = f"192.0.2.1:5 with key 'root': create-queue 'orders': {result}"
    assert caplog.messages == [line]


def test_calls_that_only_look_are_for_debugging(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "twinbus.audit")
    note(None, looks=True)
    assert caplog.messages == []
