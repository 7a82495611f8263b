"""Whose lake it is."""

from pathlib import Path

import pytest

from twinbus.spark.jobs.lake.errors import LakeDamaged, LakeError
from twinbus.spark.jobs.lake.folder import LocalFolder
from twinbus.spark.jobs.lake.identity import (
    LakeIdentity,
    read_identity,
    write_identity,
)


def test_an_identity_is_read_as_it_was_written(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    assert read_identity(folder) is None
    own = LakeIdentity(lake="l", namespace="n", data="parquet", created_at="now")
    write_identity(folder, own)
    assert read_identity(folder) == own


def test_another_format_and_damage_are_told(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    folder.replace("lake.json", '{"format": "2"}')
    with pytest.raises(LakeError, match="format '2'; this version of twinbus reads"):
        read_identity(folder)
    folder.replace("lake.json", '{"format": 1, "lake": "l"}')
    with pytest.raises(LakeDamaged, match="has no 'namespace'"):
        read_identity(folder)


def test_a_lake_names_its_reader_and_its_namespace() -> None:
    named = {"lake": "ab", "data": "parquet", "created_at": "now"}
    own = LakeIdentity(namespace="site@a@12", **named)
    assert own.reader == "spark-capture/ab"
    assert own.namespace_name == "site@a"
    other = LakeIdentity(namespace="bus.example.com", **named)
    assert other.namespace_name == "bus.example.com"
