"""The options of an audit."""

from dataclasses import dataclass
from typing import Final

TOLERANCE_SECONDS: Final = 60
"""Operations this close to the end of the logs may still be under way. Longer than a
lock of a backlog queue, within which a syphon settles what it has restored."""

SHOWN: Final = 1_000
"""Findings that the summary has with their timelines. The tables have all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions:
    """Which logs, and how to judge them."""

    # Folders of exported operation logs: of both sites, and of paired senders.
    logs: tuple[str, ...]
    # Lakes of these namespaces: folders, or URLs. What captures took must be in there.
    lakes: tuple[str, ...] = ()
    # Where the tables go; None: nowhere.
    output: str | None = None
    # Names that the logs must be of; none: any.
    namespaces: tuple[str, ...] = ()
    # The namespace that senders send to; None: found out.
    primary: str | None = None
    tolerance_seconds: int = TOLERANCE_SECONDS
    # A damaged file is a gap, and does not end the job.
    damaged_is_gap: bool = False
    shown: int = SHOWN
