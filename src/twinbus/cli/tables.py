"""Tables for people, in which a name is never broken.

Rows that fit are columns. A name that is too long for its column gets a line of its
own, and the other columns follow on the next line. Where even these do not fit, each
value has a line with its heading. A line may be longer than the terminal, which then
wraps it by itself: what is copied from there is still one name.

Elsewhere than on a terminal, rows are columns, whatever their width.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

_GAP: Final = 2
_INDENT: Final = "  "
_NAME_WIDTH: Final = 8
"""A column of names has at least this width."""

_ANY_WIDTH: Final = 10_000


def console() -> Console:
    """A console with colours on a terminal; elsewhere, lines are not cut."""
    console = Console(highlight=False)
    return (
        console if console.is_terminal else Console(highlight=False, width=_ANY_WIDTH)
    )


def one_line(text: str) -> str:
    """A text from a stranger on one line, without control characters."""
    return "".join(c if c.isprintable() else " " for c in text)


def print_table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Collection[int] = (),
    name: int = 0,
) -> None:
    """`right`: indexes of columns with figures. `name`: of the one with names."""
    screen = console()
    for line in table_lines(headings, rows, screen.width, right=right, name=name):
        screen.print(line, soft_wrap=True)


def print_fields(fields: Mapping[str, str]) -> None:
    """One value on each line, behind its heading."""
    table = FieldList()
    for heading, value in fields.items():
        table.add_row(heading, value)
    table.print()


class FieldList:
    """Values with a line each, behind their headings; a heading may come again."""

    def __init__(self) -> None:
        self._rows: list[tuple[str, str]] = []

    def add_row(self, heading: str, value: str) -> None:
        self._rows.append((heading, one_line(value)))

    def print(self) -> None:
        screen = console()
        width = max((cell_len(heading) for heading, _ in self._rows), default=0)
        for heading, value in self._rows:
            line = _cell(heading, width + _GAP) + value
            screen.print(Text(line.rstrip()), soft_wrap=True)


def table_lines(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int,
    *,
    right: Collection[int] = (),
    name: int = 0,
) -> list[Text]:
    """The lines of a table in a terminal of this width."""
    cleaned = [[one_line(value) for value in row] for row in rows]
    columns = range(len(headings))
    every = [list(headings), *cleaned]
    widths = [max(cell_len(row[at]) for row in every) for at in columns]
    if _total(widths) <= width:
        return _lines(every, list(columns), widths, right)
    others = [at for at in columns if at != name and widths[at] > 0]
    name_width = width - _total([widths[at] for at in others]) - _GAP
    if name_width < max(_NAME_WIDTH, cell_len(headings[name])):
        return _records(headings, cleaned, others, name)
    short = [list(row) for row in every]
    for row in short:
        if cell_len(row[name]) > name_width:
            row[name] = ""
    widths[name] = max(cell_len(row[name]) for row in short)
    lines: list[Text] = []
    order = sorted(columns, key=lambda at: at != name)
    in_columns = [at for at in order if widths[at] > 0]
    for row, line in zip(every, _lines(short, in_columns, widths, right), strict=True):
        if cell_len(row[name]) > name_width:
            lines.append(Text(row[name]))
        lines.append(line)
    return lines


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _lines(
    rows: Sequence[Sequence[str]],
    columns: Sequence[int],
    widths: Sequence[int],
    right: Collection[int],
) -> list[Text]:
    """The first row is the headings."""
    lines: list[Text] = []
    for row in rows:
        cells = [_cell(row[at], widths[at], is_right=at in right) for at in columns]
        line = (" " * _GAP).join(cells).rstrip()
        lines.append(Text(line, "" if lines else "bold"))
    return lines


def _records(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    others: Sequence[int],
    name: int,
) -> list[Text]:
    width = max(cell_len(headings[at]) for at in others) + _GAP
    lines: list[Text] = []
    for row in rows:
        lines.append(Text(row[name], "bold"))
        lines += [
            Text(_INDENT + _cell(headings[at], width) + row[at])
            for at in others
            if row[at]
        ]
    return lines


def _cell(text: str, width: int, *, is_right: bool = False) -> str:
    blanks = " " * (width - cell_len(text))
    return blanks + text if is_right else text + blanks
