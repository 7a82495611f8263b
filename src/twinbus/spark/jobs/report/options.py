"""What a report is asked for."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from twinbus.spark.jobs.meter.price_book import BUILT_IN

LOOK_BACK_HOURS: Final = 24
"""Deliveries so long before the first hour are read, too: a message that is completed
in that hour may have been delivered earlier."""

OUTAGE_GAP_SECONDS: Final = 300
"""Sends of an entity that fail, or are diverted, less than so long after each other
belong to one outage. An entity may be sent to rarely."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """Options of `run`."""

    # Folders of exported operation logs: of both sites, and of paired senders.
    folders: tuple[str, ...]
    # A local folder of the driver: made if it is missing, replaced file by file.
    out: Path
    # Whole hours, in UTC: earlier and later ones are not looked at.
    since: datetime | None = None
    until: datetime | None = None
    title: str = "Operations"
    # Names of price books, or paths of their files.
    books: tuple[str, ...] = BUILT_IN
    # Otherwise a damaged file ends the job.
    damaged_is_gap: bool = False
    session_count: int = 20
    sample_count: int = 5
    outage_gap_seconds: int = OUTAGE_GAP_SECONDS
