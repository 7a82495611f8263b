"""Which sequence numbers a capture has looked at, with one file for each checkpoint.

    {"format": 1, "checkpoint": "3f2a9c01", "last_batch": "3f2a9c01-00000012",
     "captured_at": "...", "entities": {"orders": {"source": "orders", "generations":
        {"9a1b...": {"0": [0, 1042]}}}}}

By generation and fragment: the first number that was looked at, and the first that was
not. A number between the two that the lake does not have was gone before it could be
captured. The file is the last that a batch writes: it says that the batch is complete.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from twinbus.spark.jobs.lake.errors import LakeDamaged
from twinbus.spark.jobs.lake.folder import LakeFolder, parsed
from twinbus.spark.jobs.lake.identity import FORMAT, check_format
from twinbus.spark.jobs.lake.layout import COVERAGE

Spans = Mapping[int, tuple[int, int]]
"""By fragment: first number, and the number before which it ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityCoverage:
    """What was looked at of one entity."""

    source: str
    generations: Mapping[str, Spans]


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Of all batches of one checkpoint."""

    checkpoint: str
    last_batch: str = ""
    captured_at: str = ""
    # By entity of the lake.
    entities: Mapping[str, EntityCoverage] = field(default_factory=dict)

    def extended(
        self,
        batch: str,
        captured_at: str,
        seen: Mapping[str, tuple[str, str, Spans]],
    ) -> "Coverage":
        """After a batch that has seen these: source, generation, spans by entity."""
        entities = dict(self.entities)
        for entity, (source, generation, spans) in seen.items():
            known = entities.get(entity)
            generations = {} if known is None else dict(known.generations)
            generations[generation] = spans
            entities[entity] = EntityCoverage(source=source, generations=generations)
        return Coverage(
            checkpoint=self.checkpoint,
            last_batch=batch,
            captured_at=captured_at,
            entities=entities,
        )


def read_coverages(folder: LakeFolder) -> dict[str, Coverage]:
    """By checkpoint. Raises LakeError."""
    names = [name for name in folder.sizes(COVERAGE) if not name.startswith(".")]
    found = [_read(folder, f"{COVERAGE}/{name}") for name in names]
    return {one.checkpoint: one for one in found}


def _read(folder: LakeFolder, path: str) -> Coverage:
    content = parsed(folder, path, folder.read(path) or "")
    check_format(folder, path, content)
    try:
        return Coverage(
            checkpoint=str(content["checkpoint"]),
            last_batch=str(content["last_batch"]),
            captured_at=str(content["captured_at"]),
            entities={
                entity: _entity(one) for entity, one in content["entities"].items()
            },
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise LakeDamaged(f"{folder.name}: {path} is damaged.") from None


def _entity(content: Mapping[str, Any]) -> EntityCoverage:
    return EntityCoverage(
        source=str(content["source"]),
        generations={
            generation: {
                int(index): (int(first), int(end))
                for index, (first, end) in spans.items()
            }
            for generation, spans in content["generations"].items()
        },
    )


def write_coverage(folder: LakeFolder, coverage: Coverage) -> None:
    entities = {
        entity: {
            "source": one.source,
            "generations": {
                generation: {str(index): list(span) for index, span in spans.items()}
                for generation, spans in one.generations.items()
            },
        }
        for entity, one in sorted(coverage.entities.items())
    }
    content = {
        "format": FORMAT,
        "checkpoint": coverage.checkpoint,
        "last_batch": coverage.last_batch,
        "captured_at": coverage.captured_at,
        "entities": entities,
    }
    text = json.dumps(content, indent=1) + "\n"
    folder.replace(f"{COVERAGE}/{coverage.checkpoint}.json", text)
