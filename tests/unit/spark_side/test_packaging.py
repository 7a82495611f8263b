"""The package as one file: the same for the same sources, and plain Python."""

import zipfile
from pathlib import Path

from twinbus.spark.packaging import write_archive


def test_same_sources_make_the_same_bytes(tmp_path: Path) -> None:
    first = write_archive(tmp_path / "first.zip").read_bytes()
    assert write_archive(tmp_path / "second.zip").read_bytes() == first


def test_nothing_of_it_is_compiled(tmp_path: Path) -> None:
    with zipfile.ZipFile(write_archive(tmp_path / "twinbus.zip")) as written:
        names = written.namelist()
    assert {name.rpartition(".")[2] for name in names} == {"py", "lark", "sql"}
    assert not any("/_native/" in name for name in names)
