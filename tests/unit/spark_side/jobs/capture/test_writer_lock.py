"""One writer for a lake."""

from pathlib import Path

import pytest

from twinbus.spark.jobs.capture.writer_lock import only_writer
from twinbus.spark.jobs.lake.errors import LakeError
from twinbus.spark.jobs.lake.folder import LocalFolder


def test_a_second_writer_is_refused_until_the_first_has_ended(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path / "lake", "lake")
    with only_writer(folder):
        with pytest.raises(LakeError, match="lake is being written by another"):
            with only_writer(folder):
                pass
    with only_writer(folder):
        pass
    (tmp_path / "file").write_text("")
    with pytest.raises(LakeError, match="cannot be used"):
        with only_writer(LocalFolder(tmp_path / "file" / "lake")):
            pass
