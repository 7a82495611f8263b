"""Parses Markdown pages: code blocks, links and anchors.

The tests run every block of Python or shell, unless the line above it is

    <!-- not run: the reason -->

There is no other way to exclude a block, so that exclusions can be seen and counted. A
block of Python below the line

    <!-- goes on -->

continues the program above it; any other is a program of its own. The parser knows as
much Markdown as our pages use: fences at the beginning of a line, inline links,
headings with a hash.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[2]

RUNNABLE = ("python", "sh")
SHOWN = ("json", "mermaid", "text", "toml")

_NOT_RUN = re.compile(r"<!-- not run: (.+) -->")
_GOES_ON = "<!-- goes on -->"
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"#+ (.*)")
_INLINE_CODE = re.compile(r"`[^`]*`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block."""

    page: Path
    # Of the opening fence, counted from 1.
    line: int
    language: str
    text: str
    # Why it is not run; empty if it is.
    not_run: str = ""
    # Whether it is a part of the program above it.
    goes_on: bool = False

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def is_run(self) -> bool:
        return self.language in RUNNABLE and not self.not_run


def blocks_of(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found: list[Block] = []
    lines = page.read_text().splitlines()
    opened_at: int | None = None
    for number, line in enumerate(lines):
        if not line.startswith("```"):
            continue
        if opened_at is None:
            opened_at = number
            continue
        above = lines[opened_at - 1] if opened_at else ""
        mark = _NOT_RUN.fullmatch(above)
        found.append(
            Block(
                page=page,
                line=opened_at + 1,
                language=lines[opened_at].removeprefix("```"),
                text="\n".join(lines[opened_at + 1 : number]) + "\n",
                not_run=mark.group(1) if mark else "",
                goes_on=above == _GOES_ON,
            )
        )
        opened_at = None
    assert opened_at is None, f"{page}: a fence is not closed"
    return found


def programs_of(page: Path) -> list[Block]:
    """What of a page is run, in order: blocks, with those that go on joined."""
    found: list[Block] = []
    for block in blocks_of(page):
        if not block.is_run:
            continue
        if not block.goes_on:
            found.append(block)
            continue
        assert found and found[-1].language == block.language, block.place
        found[-1] = replace(found[-1], text=found[-1].text + block.text)
    return found


def links_of(page: Path) -> list[str]:
    """Where the links of a page lead, as they are written."""
    return _LINK.findall(_INLINE_CODE.sub("", "\n".join(_prose(page))))


def anchors_of(page: Path) -> set[str]:
    """The anchors that a page's headings make."""
    headings = (_HEADING.fullmatch(line) for line in _prose(page))
    return {_anchor(heading.group(1)) for heading in headings if heading}


def _anchor(heading: str) -> str:
    kept = re.sub(r"[^\w\- ]", "", heading.lower())
    return kept.replace(" ", "-")


def _prose(page: Path) -> list[str]:
    """The lines outside of fenced blocks."""
    lines: list[str] = []
    is_inside = False
    for line in page.read_text().splitlines():
        if line.startswith("```"):
            is_inside = not is_inside
        elif not is_inside:
            lines.append(line)
    return lines
