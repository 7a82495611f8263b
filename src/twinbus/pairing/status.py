"""The state of a pair, as a value: for people, for metrics, and as JSON."""

from dataclasses import dataclass

from twinbus.pairing.syphon.tally import SyphonStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityStatus:
    """One entity of the primary that is or was sent to."""

    path: str
    # A text of `entity_health.State`.
    state: str
    # How long it has been in that state; 0 if it never was in another.
    since_seconds: float
    failovers: int
    diverted: int
    pings: int
    last_failure: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PairStatus:
    """A pair as this process sees it."""

    primary: str
    secondary: str
    entities: tuple[EntityStatus, ...]
    backlog_queues: tuple[str, ...]
    # Those that failed and are not used for a while.
    out_of_rotation: tuple[str, ...]
    # The syphon that this process hosts; None if it hosts none.
    syphon: SyphonStatus | None = None
