"""A lake in a storage that Spark reaches: here, the local one by its URL."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from twinbus.spark.jobs.lake.errors import LakeError
from twinbus.spark.jobs.lake.folder import LocalFolder, StorageFolder, open_folder


def test_a_storage_is_used_like_a_folder(spark: SparkSession, tmp_path: Path) -> None:
    folder = StorageFolder(spark, f"file:{tmp_path}/lake")
    assert folder.read("a/b.json") is None and folder.sizes("a") == {}
    folder.replace("a/b.json", "one")
    folder.replace("a/b.json", "two \u00e9")
    assert folder.read("a/b.json") == "two \u00e9"
    assert folder.sizes("a")["b.json"] == 6
    folder.replace("staging/entity=x%2Fy/part", "new")
    folder.replace("there/entity=x%2Fy/old", "old")
    folder.move("staging/entity=x%2Fy", "there/entity=x%2Fy")
    assert "part" in folder.sizes("there/entity=x%2Fy")
    assert "old" not in folder.sizes("there/entity=x%2Fy")
    folder.remove("there/entity=x%2Fy")
    folder.remove("there/entity=x%2Fy")
    assert "entity=x%2Fy" not in folder.sizes("there")
    assert folder.url("a") == f"file:{tmp_path}/lake/a"


def test_a_place_is_a_folder_or_a_storage(spark: SparkSession, tmp_path: Path) -> None:
    assert isinstance(open_folder(spark, str(tmp_path)), LocalFolder)
    local = open_folder(spark, f"file://{tmp_path}/a%20b")
    assert isinstance(local, LocalFolder) and local.root == tmp_path / "a b"
    with pytest.raises(LakeError, match=r"cannot be used: .*nothing"):
        open_folder(spark, "nothing://bucket/lake")
    with pytest.raises(LakeError, match="has no place"):
        open_folder(spark, " ")
