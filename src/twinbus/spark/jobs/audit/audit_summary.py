"""What an audit found."""

from dataclasses import asdict, dataclass
from typing import Any, Final

from twinbus.spark.jobs.audit.judgement import DUPLICATED, LOST, MISROUTED, UNKNOWN

PROVEN: Final = "nothing lost or doubled"
FOUND: Final = "faults found"
NOT_KNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineStep:
    """One operation on a message that something is wrong with."""

    occurred_at: str
    namespace: str
    entity: str
    subqueue: str | None
    operation: str
    result: str
    sequence_number: int | None
    source: str
    key_name: str | None
    destination: str | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFinding:
    """A message that something is wrong with."""

    finding: str
    message_uid: str
    namespace: str
    entity: str
    # Where a misrouted message is.
    found_at: str | None
    timeline: tuple[TimelineStep, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityVerdict:
    """What became of the messages of an entity."""

    namespace: str
    entity: str
    entity_kind: str | None
    verdict: str
    claimed: int
    sent: int
    restored: int
    arrived: int
    completed: int
    expired: int
    removed: int
    moved: int
    dead_lettered: int
    redelivered: int
    in_flight: int
    lost: int = 0
    duplicated: int = 0
    misrouted: int = 0
    unknown: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeVerdict:
    """Whether a lake has what its captures took out of the bus."""

    lake: str
    namespace: str
    # All that it has, by its manifests.
    messages: int
    # By the logs, messages that were taken for it; what they do not reach is not in it.
    taken: int
    # Of these, not in the lake.
    lost: int = 0
    # The same, but the log does not tell who has taken them.
    unknown: int = 0
    # The same, of days before the first that the lake has: not judged.
    before: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSummary:
    """The whole of it."""

    entities: tuple[EntityVerdict, ...]
    # Those with the worst findings first; not all, if there are many.
    findings: tuple[AuditFinding, ...]
    # By finding, all of them.
    totals: dict[str, int]
    rows: int
    buckets: int
    buckets_opened: int
    # The logs were compared up to here; what came later is the open tail.
    complete_until: str | None
    gaps: tuple[str, ...]
    notes: tuple[str, ...]
    seconds: float
    lakes: tuple[LakeVerdict, ...] = ()

    @property
    def verdict(self) -> str:
        if any(self.totals.get(name) for name in (LOST, DUPLICATED, MISROUTED)):
            return FOUND
        is_blind = any(one.verdict == NOT_KNOWN for one in self.entities)
        if self.gaps or self.totals.get(UNKNOWN) or is_blind:
            return NOT_KNOWN
        return PROVEN

    def as_json(self) -> dict[str, Any]:
        return {"verdict": self.verdict, **asdict(self)}
