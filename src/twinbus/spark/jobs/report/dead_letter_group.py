"""A group of dead letters on the page: the command that sends it again, samples."""

from collections.abc import Sequence
from html import escape
from typing import Any, Final

from twinbus.spark.jobs.report.markup import Head, command, paragraph, table
from twinbus.spark.jobs.report.readable import count_text, short, time_text
from twinbus.spark.jobs.report.resubmission import NUMBERS, needs_secondary

_CUT: Final = 80

Row = dict[str, Any]

_SAMPLE_HEADS: Final = (
    Head("At", lambda row: time_text(row["occurred_at"]), kind="time"),
    Head("Message id", lambda row: short(row["message_id"], 40)),
    Head("Number", lambda row: str(row["sequence_number"] or ""), True),
    Head("Session", lambda row: short(row["session_id"], 40)),
    Head("Deliveries", lambda row: str(row["delivery_count"] or ""), True),
    Head("By", lambda row: (row["operation"] or "").replace("_", " ")),
    Head("Client", lambda row: short(row["client"], 40)),
)


def group_markup(group: Row, samples: Sequence[Row]) -> str:
    keys = ("namespace", "entity", "reason")
    own = [
        row
        for row in samples
        if all((row[key] or "") == (group[key] or "") for key in keys)
    ]
    reason = short(group["reason"], _CUT) or "(no reason)"
    title = (
        f"{reason}: {count_text(group['messages'])} of {short(group['entity'], _CUT)}"
    )
    what = _what_it_does(group)
    own.sort(key=lambda row: row["occurred_at"], reverse=True)
    return (
        f'<div class="group"><h3>{escape(title)}</h3>{paragraph(what)}'
        f"{command(group['command'])}"
        f"{table('The newest of them', _SAMPLE_HEADS, own)}</div>"
    )


def _what_it_does(group: Row) -> str:
    which = "them" if group["messages"] <= NUMBERS else f"the newest {NUMBERS} of them"
    where = ", in the secondary" if needs_secondary(group["entity"]) else ""
    return f"Sends {which} again{where}:"
