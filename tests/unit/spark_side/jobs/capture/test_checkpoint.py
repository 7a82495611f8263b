"""What Spark's log tells of a batch."""

import json
from pathlib import Path

import pytest

from twinbus.spark.jobs.capture.checkpoint import CaptureCheckpoint, spans_of
from twinbus.spark.jobs.lake.errors import LakeDamaged
from twinbus.spark.jobs.lake.folder import LocalFolder
from twinbus.spark.offsets import Offset, Position

OFFSET = Offset(
    reader="r",
    entities={"orders": Position(generation="g", begin={0: 3}, next={0: 9, 1: 5})},
)


def test_the_offset_and_the_id_are_found(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    checkpoint = CaptureCheckpoint(folder, "browse")
    assert checkpoint.query_id() is None
    folder.replace("checkpoint/browse/metadata", '{"id":"1234abcd-5678-9abc-def0"}')
    assert checkpoint.query_id() == "1234abcd5678"
    lines = ("v1", '{"batchWatermarkMs":0}', json.dumps(OFFSET.to_json()))
    folder.replace("checkpoint/browse/offsets/4", "\n".join(lines))
    assert checkpoint.end_of(4) == OFFSET
    with pytest.raises(LakeDamaged, match="offsets/5 has no offset"):
        checkpoint.end_of(5)


def test_a_fragment_without_a_begin_has_nothing_yet() -> None:
    assert spans_of(OFFSET) == {"orders": ("g", {0: (3, 9), 1: (5, 5)})}
