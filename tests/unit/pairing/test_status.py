"""Status is a value: it can be compared, and written as JSON."""

import json
from dataclasses import FrozenInstanceError, asdict

import pytest

from twinbus.pairing.status import EntityStatus, PairStatus

STATUS = PairStatus(
    primary="north",
    secondary="south",
    entities=(
        EntityStatus(
            path="orders",
            state="healthy",
            since_seconds=0.0,
            failovers=0,
            diverted=0,
            pings=0,
            last_failure="",
        ),
    ),
    backlog_queues=("south/0",),
    out_of_rotation=(),
)


def test_status_can_be_written_as_json() -> None:
    written = json.loads(json.dumps(asdict(STATUS)))
    assert written["entities"][0]["path"] == "orders"
    assert written["backlog_queues"] == ["south/0"]


def test_status_of_one_moment_does_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        STATUS.primary = "west"  # type: ignore[misc]
