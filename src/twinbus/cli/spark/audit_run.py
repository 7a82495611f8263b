"""Runs `twinbus spark audit`, and shows what it found."""

import json
from collections.abc import Sequence
from typing import Final

from twinbus.cli import exit_codes
from twinbus.cli.spark.job_run import run_job
from twinbus.cli.tables import print_table
from twinbus.spark.jobs.audit import AuditOptions, AuditSummary, run
from twinbus.spark.jobs.audit.audit_summary import (
    FOUND,
    PROVEN,
    AuditFinding,
    EntityVerdict,
    LakeVerdict,
)

_SHOWN: Final = 20
"""Findings on a terminal; --json has more, the tables have all."""

_COLUMNS: Final = {
    "sent": "sent",
    "restored": "restored",
    "completed": "completed",
    "dead_lettered": "dead letters",
    "expired": "expired",
    "in_flight": "in flight",
    "lost": "lost",
    "duplicated": "doubled",
    "misrouted": "misrouted",
    "unknown": "unknown",
}


def audit_logs(
    options: AuditOptions, master: str, conf: Sequence[str], *, is_json: bool
) -> int:
    """Run the job and print what it found. Returns the exit code; raises Failure."""
    summary = run_job(
        "audit",
        master,
        conf,
        lambda spark, show: run(spark, options, lambda step: show(step, 0, None)),
        is_json=is_json,
    )
    if is_json:
        print(json.dumps(summary.as_json(), indent=2))
    else:
        _print(summary)
    return exit_code(summary)


def exit_code(summary: AuditSummary) -> int:
    """What a script is told."""
    if summary.verdict == FOUND:
        return exit_codes.FAULTS_FOUND
    return exit_codes.OK if summary.verdict == PROVEN else exit_codes.NOT_KNOWN


def _print(summary: AuditSummary) -> None:
    _print_entities(summary.entities)
    for finding in summary.findings[:_SHOWN]:
        _print_finding(finding)
    hidden = len(summary.findings) - _SHOWN
    if hidden > 0:
        print(f"... and {hidden} more: --json shows them, --output keeps all.")
    for lake in summary.lakes:
        print(f"lake: {lake_line(lake)}")
    for gap in summary.gaps:
        print(f"gap: {gap}")
    for note in summary.notes:
        print(f"note: {note}")
    totals = ", ".join(f"{n:,} {name}" for name, n in summary.totals.items() if n)
    print(
        f"{summary.verdict}: {totals or 'no message is amiss'}. {summary.rows:,} rows, "
        f"complete until {summary.complete_until or 'an unknown time'}, "
        f"{summary.buckets_opened:,} of {summary.buckets:,} buckets opened, "
        f"{summary.seconds:.1f} s."
    )


def lake_line(lake: LakeVerdict) -> str:
    """What a lake has, and what it should have."""
    amiss = [
        (lake.lost, "lost"),
        (lake.unknown, "perhaps lost"),
        (lake.before, "of days before it begins"),
    ]
    told = ", ".join(f"{count:,} {what}" for count, what in amiss if count)
    return (
        f"{lake.lake} has {lake.messages:,} messages; of {lake.taken:,} that were "
        f"taken out of the bus for it, {told or 'none is missing'}."
    )


def _print_entities(entities: Sequence[EntityVerdict]) -> None:
    headings = ("entity", "verdict", *_COLUMNS.values())
    rows = [
        (
            f"{one.namespace}: {one.entity}",
            one.verdict,
            *(f"{getattr(one, name):,}" for name in _COLUMNS),
        )
        for one in entities
    ]
    print_table(headings, rows, right=range(2, len(headings)))


def _print_finding(finding: AuditFinding) -> None:
    where = f", found at {finding.found_at}" if finding.found_at else ""
    print(
        f"\n{finding.finding}: message {finding.message_uid} of "
        f"{finding.namespace}: {finding.entity}{where}"
    )
    for step in finding.timeline:
        beyond = f" to {step.destination}" if step.destination else ""
        said = f" ({step.reason})" if step.reason else ""
        print(
            f"  {step.occurred_at}Z {step.namespace}: {step.entity} {step.operation} "
            f"{step.result}{beyond}{said}, by {step.key_name or 'the bus'}, in "
            f"{step.source[:14]}"
        )
