"""Writes the batches of a capture: `foreachBatch`.

Theory of operation. A batch is named by the query and its number, so a batch that Spark
repeats after a crash has the name that it had, and takes the place of what was written
of it. In this order: stage the files and read them back, note what is under way, move
the files to their places, replace the manifest of each hour, write the coverage. The
coverage is what makes a batch complete: a complete batch that comes again is skipped,
because messages that were browsed may be gone now.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from twinbus.clock import Clock
from twinbus.instants import instant_of
from twinbus.spark.jobs.capture.checkpoint import CaptureCheckpoint, spans_of
from twinbus.spark.jobs.capture.sources import ROW_KEY, CapturedEntity, row_key
from twinbus.spark.jobs.capture.summary import CaptureTally
from twinbus.spark.jobs.lake.coverage import (
    Coverage,
    Spans,
    read_coverages,
    write_coverage,
)
from twinbus.spark.jobs.lake.lake import Lake
from twinbus.spark.jobs.lake.layout import LakeHour
from twinbus.spark.jobs.lake.manifest import LakeBatch, write_manifest
from twinbus.spark.jobs.lake.messages import GENERATION, with_hours
from twinbus.spark.jobs.lake.stores import MessageStore
from twinbus.spark.jobs.lake.under_way import (
    BATCH,
    UnderWay,
    end_under_way,
    hours_together,
    read_under_way,
    write_under_way,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Seen = Mapping[str, tuple[str, str, Spans]]
"""By entity of the lake: source, generation, and what a batch looked at."""


class BatchWriter:
    """The driver's part of one query, from its start to its end."""

    def __init__(
        self,
        lake: Lake,
        store: MessageStore,
        entities: list[CapturedEntity],
        checkpoint: CaptureCheckpoint,
        clock: Clock,
        tally: CaptureTally,
    ) -> None:
        self._lake = lake
        self._store = store
        self._by_source = {one.source: one for one in entities}
        self._checkpoint = checkpoint
        self._clock = clock
        self._tally = tally
        self._coverages: dict[str, Coverage] | None = None
        # What ended the query: Spark would pass on only its text.
        self.failure: Exception | None = None

    def __call__(self, rows: "DataFrame", batch_id: int) -> None:
        try:
            self._write(rows, batch_id)
        except Exception as error:
            self.failure = error
            raise

    def _write(self, rows: "DataFrame", batch_id: int) -> None:
        query_id = self._checkpoint.query_id()
        assert query_id is not None, "Spark writes it before the first batch"
        if self._coverages is None:
            self._coverages = read_coverages(self._lake.folder)
        known = self._coverages.get(query_id, Coverage(checkpoint=query_id))
        batch = f"{query_id}-{batch_id:08d}"
        if known.last_batch != batch:
            seen = self._seen(batch_id, known)
            captured_at = instant_of(self._clock.now()).isoformat()
            entries: dict[LakeHour, LakeBatch] = {}
            if _has_news(seen, known):
                entries = self._staged(rows, batch, captured_at, seen, query_id)
            self._publish(batch, entries)
            known = known.extended(batch, captured_at, seen)
            write_coverage(self._lake.folder, known)
            self._coverages[query_id] = known
            self._count(entries)
        end_under_way(self._lake.folder)
        self._store.finish(batch)

    def _seen(self, batch_id: int, known: Coverage) -> Seen:
        """A batch that is repeated may have entities that are named no more: what they
        are called is in the coverage."""
        called = {one.source: entity for entity, one in known.entities.items()}
        called |= {one.source: one.entity for one in self._by_source.values()}
        return {
            called.get(path, path): (path, generation, spans)
            for path, (generation, spans) in spans_of(
                self._checkpoint.end_of(batch_id)
            ).items()
        }

    # --- rows -----------------------------------------------------------------

    def _staged(
        self, rows: "DataFrame", batch: str, captured_at: str, seen: Seen, query_id: str
    ) -> dict[LakeHour, LakeBatch]:
        named = self._named(rows, seen)
        new = self._unknown(named, seen, query_id)
        entries = self._store.stage(
            new, batch, captured_at, lambda entity, _: seen[entity][0]
        )
        if new is not named:
            count = sum(entry.count for entry in entries.values())
            self._tally.known += named.count() - count
        return entries

    def _named(self, rows: "DataFrame", seen: Seen) -> "DataFrame":
        """With the entity of the lake, its generation, and the hour."""
        from pyspark.sql.functions import create_map, expr, lit

        names = create_map(
            *(
                lit(text)
                for entity, (source, _, _) in seen.items()
                for text in (row_key(source), entity)
            )
        )
        generations = create_map(
            *(lit(text) for entity in seen for text in (entity, seen[entity][1]))
        )
        entity = names[expr(ROW_KEY)]
        found = rows.withColumn("entity", entity)
        found = found.withColumn(GENERATION, generations[found["entity"]])
        return with_hours(found)

    def _unknown(self, rows: "DataFrame", seen: Seen, query_id: str) -> "DataFrame":
        """Without what the lake has from another checkpoint: if one was deleted, its
        successor begins from the start."""
        assert self._coverages is not None
        for checkpoint, coverage in self._coverages.items():
            if checkpoint == query_id:
                continue
            for entity, one in coverage.entities.items():
                if entity not in seen:
                    continue
                for index, (_, end) in one.generations.get(seen[entity][1], {}).items():
                    quoted = entity.replace("'", "\\'")
                    rows = rows.where(
                        f"NOT (entity = '{quoted}' AND partition = {index} AND "
                        f"sequence_number < {end})"
                    )
        return rows

    # --- the lake -------------------------------------------------------------

    def _publish(self, batch: str, entries: Mapping[LakeHour, LakeBatch]) -> None:
        folder, hours = self._lake.folder, sorted(entries)
        before = read_under_way(folder)
        earlier = before.hours if before is not None and before.batch == batch else ()
        touched = hours_together(hours, earlier)
        if not touched:
            return
        write_under_way(folder, UnderWay(kind=BATCH, batch=batch, hours=touched))
        for hour in touched:
            if hour not in entries:
                # An earlier attempt had messages that are gone now.
                self._withdraw(hour, batch)
        self._store.publish(hours, batch)
        for hour in hours:
            manifest = self._lake.manifest(hour).with_batch(entries[hour])
            write_manifest(folder, self._lake.identity.lake, manifest)

    def _withdraw(self, hour: LakeHour, batch: str) -> None:
        withdraw(self._lake, self._store, hour, batch)

    def _count(self, entries: Mapping[LakeHour, LakeBatch]) -> None:
        tally = self._tally
        tally.batches += bool(entries)
        for hour, entry in entries.items():
            tally.entities[hour.entity] += entry.count
            tally.files += len(entry.files)
            tally.hours.add(hour)
            tally.bytes += sum(part.bytes for part in entry.parts)


def _has_news(seen: Seen, known: Coverage) -> bool:
    """Whether a batch has a number that the one before had not. The first batch of a
    query may have none."""
    for entity, (_, generation, spans) in seen.items():
        before = known.entities.get(entity)
        done = {} if before is None else before.generations.get(generation, {})
        for index, (begin, end) in spans.items():
            if end > done.get(index, (begin, begin))[1]:
                return True
    return False


def withdraw(lake: Lake, store: MessageStore, hour: LakeHour, batch: str) -> None:
    """Take a batch out of an hour: first from the manifest, then its files."""
    manifest = lake.manifest(hour)
    if any(one.batch == batch for one in manifest.batches):
        write_manifest(lake.folder, lake.identity.lake, manifest.without([batch]))
    store.withdraw(hour, batch)
