"""The paths of transfer queues, and the names of their primaries."""

import pytest

from twinbus.broker.transfer_queue import is_transfer_queue, primary_of


@pytest.mark.parametrize(
    ("path", "primary"),
    [
        ("away/x-servicebus-transfer/0", "away"),
        ("away/x-servicebus-transfer/123456", "away"),
        ("sales/eu/x-servicebus-transfer/7", "sales/eu"),
        ("Away/X-ServiceBus-Transfer/0", "Away"),
        (
            "a/x-servicebus-transfer/0/x-servicebus-transfer/1",
            "a/x-servicebus-transfer/0",
        ),
    ],
)
def test_transfer_queue_is_told_by_its_path(path: str, primary: str) -> None:
    assert is_transfer_queue(path)
    assert primary_of(path) == primary


@pytest.mark.parametrize(
    "path",
    [
        "",
        "away",
        "x-servicebus-transfer/0",
        "/x-servicebus-transfer/0",
        "away/x-servicebus-transfer",
        "away/x-servicebus-transfer/",
        "away/x-servicebus-transfer/lease",
        "away/x-servicebus-transfer/0x",
        "away/x-servicebus-transfer/\u0661",
        "away/x-servicebus-transfer/0/other",
        "awayx-servicebus-transfer/0",
        "away/x-servicebus-transfer/0\n",
    ],
)
def test_others_are_not(path: str) -> None:
    assert not is_transfer_queue(path)
