"""What a lake has, by its manifests and its coverage: no message is read.

A *place* is one fragment of one generation of an entity, its dead letters apart. What
a capture has taken from there, by the log, must be in the lake.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from twinbus.spark.jobs.capture.checkpoint import CaptureCheckpoint
from twinbus.spark.jobs.lake.coverage import Coverage, read_coverages
from twinbus.spark.jobs.lake.folder import open_folder
from twinbus.spark.jobs.lake.lake import Lake, open_lake
from twinbus.spark.jobs.lake.manifest import HourManifest, LakePart, joined_parts
from twinbus.spark.jobs.lake.stores import MessageStore, open_store
from twinbus.spark.offsets import AMQP_GENERATION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Place = tuple[str, str, int]
"""Generation, sub-queue as logs call it or nothing, fragment."""

_SUB_QUEUES: Final = ("$transfer/$deadletterqueue", "$deadletterqueue")
"""The longer one first: it ends with the other."""

_BROWSE: Final = "browse"


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenRange:
    """What a reader has taken from a place, by the log."""

    # Null in logs of versions that did not tell.
    reader: str | None
    place: Place
    count: int
    # Sequence numbers, both taken.
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumedSpan:
    """What a capture has looked at, of a place that it may have emptied."""

    # The first number, and the first that is not in it any more.
    first: int
    end: int
    # Of a subscription of the lake's own: nobody else reads it.
    is_own: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeContents:
    """A lake, and what it has."""

    lake: Lake
    store: MessageStore
    manifests: Sequence[HourManifest]
    # One part for each entity of the lake that has messages of the place.
    held: Mapping[Place, Sequence[LakePart]]
    consumed: Mapping[Place, ConsumedSpan]

    @property
    def count(self) -> int:
        return sum(manifest.count for manifest in self.manifests)

    @property
    def begins_on(self) -> str | None:
        """The oldest day that it has anything of: older ones may have been removed, as
        a whole. None if it is empty."""
        return min((one.hour.date for one in self.manifests), default=None)

    @property
    def generations(self) -> list[str]:
        """Of entities: they tell a namespace from every other."""
        found = {place[0] for place in (*self.held, *self.consumed)}
        return sorted(found - {AMQP_GENERATION})

    def concerns(self, taken: TakenRange) -> bool:
        """Whether this lake must have it, or might have to."""
        if taken.reader is None:
            return taken.place in self.consumed
        return taken.reader == self.lake.identity.reader

    def has_all(self, taken: TakenRange) -> bool:
        """Whether the manifests tell that all of it is here. If not, some may miss."""
        parts = self.held.get(taken.place, ())
        if len(parts) != 1:
            # A message may be there under two names, so counts mean nothing.
            return False
        [part] = parts
        bounds = (taken.count, taken.first, taken.last)
        if bounds == (part.count, part.first, part.last):
            return True
        is_without_holes = part.count == part.last - part.first + 1
        return is_without_holes and part.first <= taken.first <= taken.last <= part.last

    def manifests_of(self, generations: set[str]) -> list[HourManifest]:
        """Hours that have messages of one of these."""
        return [
            manifest
            for manifest in self.manifests
            if any(part.generation in generations for part in manifest.parts)
        ]


def read_lakes(spark: "SparkSession", places: Sequence[str]) -> list[LakeContents]:
    """Raises LakeError for one that is damaged, or of another format."""
    return [_contents(spark, place) for place in places]


def _contents(spark: "SparkSession", place: str) -> LakeContents:
    folder = open_folder(spark, place)
    lake = open_lake(folder)
    store = open_store(spark, folder, lake.identity.data)
    manifests = [lake.manifest(hour) for hour in lake.hours()]
    for manifest in manifests:
        lake.check_files(manifest)
    browsing = CaptureCheckpoint(folder, _BROWSE).query_id()
    coverages = read_coverages(folder).values()
    return LakeContents(
        lake=lake,
        store=store,
        manifests=manifests,
        held=_held(manifests),
        consumed=consumed_spans(
            [one for one in coverages if one.checkpoint != browsing]
        ),
    )


def place_of(source: str, generation: str, fragment: int) -> Place:
    """`source`: the path that was read."""
    path = source.lower()
    found = (name for name in _SUB_QUEUES if path.endswith(f"/{name}"))
    return generation, next(found, ""), fragment


def _held(manifests: Sequence[HourManifest]) -> dict[Place, list[LakePart]]:
    by_entity: dict[str, list[LakePart]] = {}
    for manifest in manifests:
        by_entity.setdefault(manifest.hour.entity, []).extend(manifest.parts)
    held: dict[Place, list[LakePart]] = {}
    for parts in by_entity.values():
        for part in joined_parts(parts):
            place = place_of(part.source, part.generation, part.fragment)
            held.setdefault(place, []).append(part)
    return held


def consumed_spans(coverages: Sequence[Coverage]) -> dict[Place, ConsumedSpan]:
    """From the coverage of checkpoints that are not known to browse only."""
    spans: dict[Place, ConsumedSpan] = {}
    for coverage in coverages:
        for place, span in _spans(coverage):
            known = spans.get(place, span)
            spans[place] = ConsumedSpan(
                first=min(known.first, span.first),
                end=max(known.end, span.end),
                is_own=known.is_own or span.is_own,
            )
    return spans


def _spans(coverage: Coverage) -> Iterator[tuple[Place, ConsumedSpan]]:
    for entity, one in coverage.entities.items():
        is_own = entity.lower() != one.source.lower()
        for generation, by_fragment in one.generations.items():
            for fragment, (first, end) in by_fragment.items():
                place = place_of(one.source, generation, fragment)
                yield place, ConsumedSpan(first=first, end=end, is_own=is_own)
