"""The report about a pair, for people and scripts: both sides, and the backlog."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from rich.markup import escape
from rich.table import Table

from twinbus.cli import exit_codes
from twinbus.cli.entity_tables import readable_age, readable_size
from twinbus.cli.sdk_side import Reachability
from twinbus.cli.tables import console
from twinbus.pairing.backlog_status import BacklogQueueStatus, BacklogSurvey


@dataclass(frozen=True, slots=True, kw_only=True)
class PairReport:
    """What `twinbus pair status` found."""

    primary_name: str
    primary_host: str
    primary: Reachability
    secondary_host: str
    secondary: Reachability
    # None if the secondary does not answer.
    survey: BacklogSurvey | None
    # held, free, or none: no server was ever configured to run the syphon.
    # Applications and `twinbus syphon` need no lease.
    lease: str
    # Rights that a syphon with these keys lacks; None if that could not be asked.
    lacking: tuple[str, ...] | None
    now: int

    @property
    def exit_code(self) -> int:
        if not self.primary.is_up or not self.secondary.is_up:
            return exit_codes.UNREACHABLE
        assert self.survey is not None, "the secondary answers"
        is_empty = self.survey.waiting == 0 and self.survey.dead_letters == 0
        return exit_codes.OK if is_empty else exit_codes.BACKLOG

    @property
    def queues(self) -> tuple[BacklogQueueStatus, ...]:
        return () if self.survey is None else self.survey.queues

    @property
    def is_complete(self) -> bool:
        """Whether every waiting message was peeked at."""
        return all(queue.looked_at >= queue.waiting for queue in self.queues)

    @property
    def not_looked_at(self) -> int:
        """How many messages wait that were not peeked at: their entity is unknown."""
        return sum(queue.waiting - queue.looked_at for queue in self.queues)

    def entities(self) -> list[tuple[str, int, int]]:
        """Paths on the primary, with how many messages wait and how many are parked."""
        waiting: Counter[str] = Counter()
        parked: Counter[str] = Counter()
        for queue in self.queues:
            waiting.update(queue.entities)
            parked.update(queue.parked)
        return [(path, waiting[path], parked[path]) for path in sorted(waiting)]

    def age_ms(self, oldest_at: int | None) -> int | None:
        return None if oldest_at is None else max(self.now - oldest_at, 0)


def as_json(report: PairReport) -> dict[str, Any]:
    """The JSON for scripts; its shape does not change."""
    survey = report.survey
    return {
        "primary": {
            "name": report.primary_name,
            **_side(report.primary_host, report.primary),
        },
        "secondary": _side(report.secondary_host, report.secondary),
        "lease": report.lease,
        "syphon": {
            "can_run_with_these_keys": None
            if report.lacking is None
            else not report.lacking,
            "lacks": list(report.lacking or ()),
        },
        "waiting": 0 if survey is None else survey.waiting,
        "dead_letters": 0 if survey is None else survey.dead_letters,
        "oldest_age_ms": report.age_ms(None if survey is None else survey.oldest_at),
        "queues": [
            {
                "path": queue.path,
                "waiting": queue.waiting,
                "parked": sum(queue.parked.values()),
                "dead_letters": queue.dead_letters,
                "oldest_age_ms": report.age_ms(queue.oldest_at),
                "size_bytes": queue.size_bytes,
            }
            for queue in report.queues
        ],
        "entities": [
            {"path": path, "waiting": waiting, "parked": parked}
            for path, waiting, parked in report.entities()
        ],
        "not_looked_at": report.not_looked_at,
        "is_complete": report.is_complete,
    }


def _side(host: str, reach: Reachability) -> dict[str, Any]:
    return {"host": host, "is_reachable": reach.is_up, "detail": reach.detail}


def print_report(report: PairReport) -> None:
    """Tables, for people."""
    out = console()
    sides = Table(box=None, pad_edge=False, show_header=False)
    sides.add_row("primary", escape(report.primary_host), _answer(report.primary))
    sides.add_row("secondary", escape(report.secondary_host), _answer(report.secondary))
    sides.add_row("syphon", "of a server", _LEASES[report.lease])
    for text in _with_these_keys(report.lacking):
        sides.add_row("syphon", "with these keys", escape(text))
    out.print(sides)
    if report.survey is None:
        return
    if not report.queues:
        out.print(escape(report.survey.missing))
        return
    out.print()
    out.print(_queue_table(report, report.survey))
    if report.survey.waiting:
        out.print()
        out.print(_entity_table(report))
    if not report.is_complete:
        out.print("Entities and ages are those of the first messages of each queue.")


_LEASES = {
    "held": "runs",
    "free": "ran, and runs nowhere now",
    "none": "none was told to; those of applications are not seen from here",
    "unknown": "not known",
}


def _with_these_keys(lacking: tuple[str, ...] | None) -> list[str]:
    if lacking is None:
        return ["not known"]
    return [f"cannot run: it lacks {text}" for text in lacking] or ["can run"]


def _answer(reach: Reachability) -> str:
    return escape(
        f"{'answers' if reach.is_up else 'does not answer'}"
        f"{': ' if reach.detail else ''}{reach.detail}"
    )


def _queue_table(report: PairReport, survey: BacklogSurvey) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("backlog queue", overflow="fold")
    for heading in ("waiting", "parked", "dead-letter", "oldest", "size"):
        table.add_column(heading, justify="right")
    for queue in survey.queues:
        table.add_row(
            escape(queue.path),
            str(queue.waiting),
            str(sum(queue.parked.values())),
            str(queue.dead_letters),
            _age(report.age_ms(queue.oldest_at)),
            readable_size(queue.size_bytes),
        )
    table.add_row(
        "all",
        str(survey.waiting),
        str(sum(sum(queue.parked.values()) for queue in survey.queues)),
        str(survey.dead_letters),
        _age(report.age_ms(survey.oldest_at)),
        readable_size(sum(queue.size_bytes for queue in survey.queues)),
    )
    return table


def _entity_table(report: PairReport) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("entity on the primary", overflow="fold")
    table.add_column("waiting", justify="right")
    table.add_column("parked", justify="right")
    for path, waiting, parked in report.entities():
        table.add_row(escape(path) or "(none given)", str(waiting), str(parked))
    if report.not_looked_at:
        table.add_row("(not looked at)", str(report.not_looked_at), "")
    return table


def _age(age_ms: int | None) -> str:
    return "" if age_ms is None else readable_age(age_ms)
