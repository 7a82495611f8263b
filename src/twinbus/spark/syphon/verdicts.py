"""What became of the messages of a batch: from executors to the driver."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

import pyarrow as pa


class Fate(StrEnum):
    """What became of a message."""

    RESTORED = "restored"
    # It had been restored before.
    KNOWN = "known"
    DEAD = "dead"
    # Its entity does not take it now: `reason` is the kind of failure, by its name.
    REFUSED = "refused"
    # It waits behind others of its entity.
    BEHIND = "behind"
    # The primary does not answer; nothing is to be settled.
    AWAY = "away"


SCHEMA: Final = "fate string, reason string, description string"
COLUMNS: Final = (
    *("queue", "number", "is_deferred", "path"),
    *("fate", "reason", "description"),
)


class Told(NamedTuple):
    """What a task says of one message: a row of SCHEMA."""

    fate: Fate
    reason: str = ""
    description: str = ""


RESTORED: Final = Told(Fate.RESTORED)
KNOWN: Final = Told(Fate.KNOWN)
BEHIND: Final = Told(Fate.BEHIND)


def told_array(told: Sequence[Told]) -> pa.Array:
    columns = [pa.array(column, pa.string()) for column in zip(*told, strict=True)]
    return pa.StructArray.from_arrays(columns, names=list(Told._fields))


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueVerdict:
    """One fate of messages of one queue and entity."""

    fate: Fate
    queue: str
    # They had been deferred before.
    is_deferred: bool
    path: str
    reason: str
    description: str
    numbers: list[int] = field(default_factory=list)


def read_verdicts(table: pa.Table) -> list[QueueVerdict]:
    """From rows of COLUMNS; those that say the same are one."""
    found: dict[tuple[object, ...], QueueVerdict] = {}
    columns = [table.column(name).to_pylist() for name in COLUMNS]
    for queue, number, is_deferred, *told in zip(*columns, strict=True):
        key = queue, is_deferred, *told
        if key not in found:
            path, fate, reason, description = told
            found[key] = QueueVerdict(
                fate=Fate(fate),
                queue=queue,
                is_deferred=is_deferred,
                path=path,
                reason=reason,
                description=description,
            )
        found[key].numbers.append(number)
    return list(found.values())


def of_fate(verdicts: Iterable[QueueVerdict], *fates: Fate) -> Iterator[QueueVerdict]:
    return (verdict for verdict in verdicts if verdict.fate in fates)
