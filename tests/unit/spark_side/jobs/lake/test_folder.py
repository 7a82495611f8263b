"""Files of a lake on this host."""

from pathlib import Path

import pytest

from twinbus.spark.jobs.lake.errors import LakeDamaged, LakeError
from twinbus.spark.jobs.lake.folder import LocalFolder, parsed


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    assert folder.read("a/b.json") is None
    folder.replace("a/b.json", "one")
    folder.replace("a/b.json", "two")
    assert folder.read("a/b.json") == "two"
    assert folder.sizes("a") == {"b.json": 3}
    assert folder.sizes("nowhere") == {}


def test_a_folder_is_moved_in_place_of_another(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    folder.replace("staging/x/part", "new")
    folder.replace("there/x/old", "old")
    folder.move("staging/x", "there/x")
    assert folder.sizes("there/x") == {"part": 3}
    assert folder.sizes("staging") == {}
    folder.remove("there/x")
    folder.remove("there/x")
    assert folder.sizes("there") == {}


def test_what_cannot_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    folder = LocalFolder(tmp_path / "file", "lake")
    with pytest.raises(LakeError, match=r"lake: a\.json cannot be used"):
        folder.replace("a.json", "{}")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(LakeDamaged, match="is not a text"):
        LocalFolder(tmp_path).read("bytes")


@pytest.mark.parametrize("text", ["", "{", "[]", "7"])
def test_what_is_no_object_is_damaged(tmp_path: Path, text: str) -> None:
    with pytest.raises(LakeDamaged, match=r"x\.json is torn or damaged"):
        parsed(LocalFolder(tmp_path), "x.json", text)
