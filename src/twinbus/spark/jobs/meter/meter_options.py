"""The options of metering."""

from dataclasses import dataclass, field

from twinbus.spark.jobs.meter.pair_costs import CostSettings
from twinbus.spark.jobs.meter.price_book import BUILT_IN


@dataclass(frozen=True, slots=True, kw_only=True)
class MeterOptions:
    """Which logs, which books, and where the tables go."""

    # Folders of exported operation logs.
    logs: tuple[str, ...]
    # Names of price books, or paths of their files.
    books: tuple[str, ...] = BUILT_IN
    # Where the tables go; None: nowhere.
    output: str | None = None
    # Also as CSV.
    has_csv: bool = False
    # Names that the logs must be of; none: any.
    namespaces: tuple[str, ...] = ()
    # How the pair is set up, and how it might be.
    pair: CostSettings = field(default_factory=CostSettings)
    what_if: CostSettings | None = None
    damaged_is_gap: bool = False
