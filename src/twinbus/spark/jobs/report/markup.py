"""HTML from values: everything that comes from a log is escaped."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

Cell = Callable[[dict[str, Any]], str]


@dataclass(frozen=True, slots=True)
class Head:
    """A column of a table on the page: its title, and the text of a row."""

    title: str
    cell: Cell
    is_number: bool = False
    kind: str = ""


def table(caption: str, heads: Sequence[Head], rows: Iterable[dict[str, Any]]) -> str:
    """A table that scrolls by itself where the page is narrow."""
    titles = "".join(
        f'<th scope="col"{_class(head)}>{escape(head.title)}</th>' for head in heads
    )
    lines = "".join(
        "<tr>"
        + "".join(f"<td{_class(head)}>{escape(head.cell(row))}</td>" for head in heads)
        + "</tr>"
        for row in rows
    )
    words = escape(caption)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{words}">'
        f"<table><caption>{words}</caption>"
        f"<thead><tr>{titles}</tr></thead><tbody>{lines}</tbody></table></div>"
    )


def _class(head: Head) -> str:
    kind = "number" if head.is_number else head.kind
    return f' class="{kind}"' if kind else ""


def paragraph(text: str, kind: str = "") -> str:
    attribute = f' class="{kind}"' if kind else ""
    return f"<p{attribute}>{escape(text)}</p>"


def command(line: str) -> str:
    return f'<pre tabindex="0"><code>{escape(line)}</code></pre>'
