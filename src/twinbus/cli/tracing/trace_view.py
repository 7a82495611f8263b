"""What happened to a message, for people: a table, or a list where that is too wide.

In the list an event has a line with time, operation and entity, and one with the rest.
A name that does not fit behind the operation has a line of its own: none is broken.
"""

from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len
from rich.text import Text

from twinbus.cli.tables import console, one_line, table_lines
from twinbus.cli.tracing.message_trace import MessageTrace, Row

_SECONDS: Final = len("2026-11-17T22:47:21.121")
_HEADINGS: Final = ("time (UTC)", "operation", "where", "number", "by", "details")
_WHERE, _NUMBER = 2, 3
_THE_BUS: Final = "the bus"
_INDENT: Final = "    "
_ANY_WIDTH: Final = 10_000


def print_trace(trace: MessageTrace) -> None:
    screen = console()
    for line in trace_lines(trace, screen.width):
        screen.print(line, soft_wrap=True)
    for gap in trace.gaps:
        text = f"The log of {gap['source']} has a gap: {gap['why']}."
        screen.print(text, style="yellow", soft_wrap=True)


def trace_lines(trace: MessageTrace, width: int) -> list[Text]:
    """The lines in a terminal of this width."""
    # Of one namespace alone, its name says nothing.
    has_namespaces = len({event.get("namespace") for event in trace.events}) > 1
    rows = [_row(event, has_namespace=has_namespaces) for event in trace.events]
    table = table_lines(_HEADINGS, rows, _ANY_WIDTH, right=(_NUMBER,), name=_WHERE)
    if all(cell_len(line.plain) <= width for line in table):
        return table
    operation_width = max(cell_len(row[1]) for row in rows)
    time_width = max(cell_len(row[0]) for row in rows)
    head = f"{_HEADINGS[0]:<{time_width}}  {_HEADINGS[1]:<{operation_width}}  where"
    lines = [Text(head, "bold")]
    for row in rows:
        lines += _listed(row, operation_width, width)
    return lines


def _listed(row: Sequence[str], operation_width: int, width: int) -> list[Text]:
    time, operation, where, number, by, details = map(one_line, row)
    place = f"{where} #{number}" if number else where
    start = f"{time}  {operation:<{operation_width}}"
    by = "" if by == _THE_BUS else f"by {by}"
    rest = ", ".join(part for part in (by, details) if part)
    shown = [f"{start}  {place}"]
    if cell_len(shown[0]) > width:
        shown = [start.rstrip(), _INDENT + place]
    if rest:
        shown.append(_INDENT + rest)
    return [Text(line) for line in shown]


def _row(event: Row, *, has_namespace: bool) -> tuple[str, ...]:
    return (
        str(event["occurred_at"])[:_SECONDS].replace("T", " "),
        _operation(event),
        _where(event, has_namespace=has_namespace),
        str(event.get("sequence_number", "")),
        str(event.get("key_name") or event.get("client") or _THE_BUS),
        _details(event),
    )


def _where(event: Row, *, has_namespace: bool) -> str:
    path = str(event.get("entity", "?"))
    if "subqueue" in event:
        path += f"/{event['subqueue']}"
    namespace = event.get("namespace")
    return f"{namespace}: {path}" if has_namespace and namespace else path


def _operation(event: Row) -> str:
    result = event.get("result", "ok")
    operation = str(event["operation"])
    return operation if result == "ok" else f"{operation} ({result})"


def _details(event: Row) -> str:
    parts = [
        f"{name.replace('_', ' ')} {event[name]}"
        for name in ("destination", "reason", "session_id", "delivery_count")
        if event.get(name) not in (None, "", 0)
    ]
    return ", ".join(parts)
