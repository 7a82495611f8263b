"""What manifests and coverage tell by themselves."""

from pathlib import Path

import pytest

from twinbus.spark.jobs.audit.lake_contents import (
    ConsumedSpan,
    LakeContents,
    Place,
    TakenRange,
    consumed_spans,
    place_of,
)
from twinbus.spark.jobs.lake.coverage import Coverage, EntityCoverage
from twinbus.spark.jobs.lake.folder import LocalFolder
from twinbus.spark.jobs.lake.identity import LakeIdentity
from twinbus.spark.jobs.lake.lake import Lake
from twinbus.spark.jobs.lake.manifest import LakePart
from twinbus.spark.jobs.lake.stores import FileStore

PLACE: Place = ("g1", "", 0)
READER = "spark-capture/ab"


def part(first: int, last: int, count: int) -> LakePart:
    return LakePart(
        source="orders",
        generation="g1",
        fragment=0,
        first=first,
        last=last,
        count=count,
        bytes=1,
        xor="0" * 16,
        sum="0",
        first_enqueued_at=0,
        last_enqueued_at=0,
    )


def contents(*parts: LakePart, **spans: ConsumedSpan) -> LakeContents:
    folder = LocalFolder(Path("lake"))
    identity = LakeIdentity(
        lake="ab", namespace="n@1", data="parquet", created_at="now"
    )
    return LakeContents(
        lake=Lake(folder, identity),
        store=FileStore(folder),
        manifests=(),
        held={PLACE: parts},
        consumed={(name, "", 0): span for name, span in spans.items()},
    )


def taken(first: int, last: int, count: int, reader: str | None = READER) -> TakenRange:
    return TakenRange(reader=reader, place=PLACE, count=count, first=first, last=last)


@pytest.mark.parametrize(
    ("held", "of_log", "is_proven"),
    [
        # The same, with holes.
        (part(1, 10, 7), taken(1, 10, 7), True),
        # A lake without holes has all that is within, also if the log has less.
        (part(1, 10, 10), taken(3, 9, 4), True),
        (part(1, 10, 10), taken(3, 11, 9), False),
        (part(2, 10, 9), taken(1, 10, 10), False),
        # With holes, a closer look is needed.
        (part(1, 10, 7), taken(1, 10, 8), False),
        (part(1, 10, 7), taken(2, 9, 5), False),
    ],
)
def test_counts_and_bounds_prove_what_they_can(
    held: LakePart, of_log: TakenRange, is_proven: bool
) -> None:
    assert contents(held).has_all(of_log) is is_proven


def test_counts_prove_nothing_of_what_has_two_names_or_none() -> None:
    assert not contents(part(1, 2, 2), part(1, 2, 2)).has_all(taken(1, 2, 2))
    assert not contents().has_all(taken(1, 2, 2))


def test_a_lake_has_to_have_what_its_reader_took() -> None:
    span = ConsumedSpan(first=0, end=9, is_own=False)
    assert contents().concerns(taken(1, 2, 2))
    assert not contents(g1=span).concerns(taken(1, 2, 2, reader="another"))
    # Nobody knows who it was: it may have been the capture.
    assert contents(g1=span).concerns(taken(1, 2, 2, reader=None))
    assert not contents(g2=span).concerns(taken(1, 2, 2, reader=None))


def test_generations_over_amqp_tell_nothing() -> None:
    span = ConsumedSpan(first=0, end=9, is_own=False)
    assert contents(amqp=span, g2=span).generations == ["g1", "g2"]


@pytest.mark.parametrize(
    ("source", "sub_queue"),
    [
        ("orders", ""),
        ("orders/$DeadLetterQueue", "$deadletterqueue"),
        ("orders/$Transfer/$DeadLetterQueue", "$transfer/$deadletterqueue"),
        ("billing/Subscriptions/a", ""),
    ],
)
def test_dead_letters_are_a_place_of_their_own(source: str, sub_queue: str) -> None:
    assert place_of(source, "g1", 3) == ("g1", sub_queue, 3)


def test_what_two_checkpoints_have_looked_at_is_one_span() -> None:
    coverages = [
        Coverage(
            checkpoint=str(begin),
            entities={
                "orders": EntityCoverage(
                    source="orders", generations={"g1": {0: (begin, begin + 5)}}
                ),
                "billing": EntityCoverage(
                    source="billing/Subscriptions/own", generations={"g2": {0: (0, 2)}}
                ),
            },
        )
        for begin in (5, 0)
    ]
    assert consumed_spans(coverages) == {
        ("g1", "", 0): ConsumedSpan(first=0, end=10, is_own=False),
        ("g2", "", 0): ConsumedSpan(first=0, end=2, is_own=True),
    }
