"""Brings the help texts in docs/reference/cli.md up to date.

The page is written by hand, but for its blocks that begin with `$ twinbus ... --help`:
these are what the commands print. A new command gets a heading and an empty block, with
that line alone, by hand; a test says which one is missing.
"""

import os
import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "cli.md"

_BLOCK = re.compile(r"```text\n\$ twinbus ?(.*?) ?--help\n.*?```", re.DOTALL)


def help_of(words: list[str]) -> str:
    from twinbus.cli.main import run

    os.environ["COLUMNS"] = "80"
    with redirect_stdout(StringIO()) as out:
        run([*words, "--help"])
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()).strip()


def current(block: re.Match[str]) -> str:
    words = block[1].split()
    command = " ".join(("twinbus", *words))
    return f"```text\n$ {command} --help\n{help_of(words)}\n```"


def page() -> str:
    return _BLOCK.sub(current, PAGE.read_text())


if __name__ == "__main__":
    PAGE.write_text(page())
