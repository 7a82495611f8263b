"""What the manifest of an hour says, and how it is read back."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinbus.spark.jobs.lake.errors import LakeDamaged, LakeError
from twinbus.spark.jobs.lake.folder import LocalFolder
from twinbus.spark.jobs.lake.layout import LakeHour
from twinbus.spark.jobs.lake.manifest import (
    HourManifest,
    LakeBatch,
    LakeFile,
    LakePart,
    joined_parts,
    read_manifest,
    write_manifest,
)

HOUR = LakeHour("2026-11-17", "22", "orders")
PART = LakePart(
    source="orders",
    generation="9a",
    fragment=0,
    first=1,
    last=3,
    count=3,
    bytes=30,
    xor="00000000000000ff",
    sum="-5",
    first_enqueued_at=1,
    last_enqueued_at=2,
)
BATCH = LakeBatch(
    batch="q-00000001",
    captured_at="2026-11-17T22:00:00+00:00",
    files=(LakeFile(name="part-0.parquet", bytes=8, rows=3),),
    parts=(PART,),
)


def test_a_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    manifest = HourManifest(hour=HOUR, batches=(BATCH,))
    assert read_manifest(folder, HOUR) is None
    write_manifest(folder, "lake", manifest)
    assert read_manifest(folder, HOUR) == manifest
    assert manifest.files() == [(HOUR.batch("q-00000001"), BATCH.files[0])]
    write_manifest(folder, "lake", manifest.without(["q-00000001"]))
    assert read_manifest(folder, HOUR) is None


def test_a_batch_takes_the_place_of_its_earlier_attempt() -> None:
    later = replace(BATCH, batch="q-00000002")
    other = replace(BATCH, files=())
    manifest = HourManifest(hour=HOUR).with_batch(later).with_batch(BATCH)
    assert manifest.with_batch(other).batches == (other, later)
    assert manifest.count == 6
    assert [part.count for part in manifest.parts] == [6]


@given(st.lists(st.tuples(st.integers(0, 1 << 63), st.integers()), min_size=1))
def test_digests_of_parts_do_not_depend_on_their_order(
    values: list[tuple[int, int]],
) -> None:
    parts = [
        replace(PART, xor=f"{xor:016x}", sum=str(total), first=number, last=number)
        for number, (xor, total) in enumerate(values)
    ]
    assert joined_parts(parts) == joined_parts(parts[::-1])
    [joined] = joined_parts(parts)
    assert joined.count == 3 * len(parts)
    assert int(joined.sum) == sum(total for _, total in values)


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        ({"format": 2}, LakeError, "is of format 2"),
        ({"entity": "other"}, LakeDamaged, "of another hour or entity"),
        ({"batches": [{}]}, LakeDamaged, "it lacks something"),
        ({"batches": [{"batch": "b"}]}, LakeDamaged, "it lacks something"),
        ({"batches": 7}, LakeDamaged, "it lacks something"),
    ],
)
def test_a_manifest_that_is_not_right_is_told(
    tmp_path: Path, change: dict[str, object], kind: type[Exception], text: str
) -> None:
    folder = LocalFolder(tmp_path)
    write_manifest(folder, "lake", HourManifest(hour=HOUR, batches=(BATCH,)))
    content = json.loads(folder.read(HOUR.manifest) or "")
    folder.replace(HOUR.manifest, json.dumps({**content, **change}))
    with pytest.raises(kind, match=text):
        read_manifest(folder, HOUR)
