"""Writes the table of settings in docs/reference/configuration.md.

The page is written by hand, but for what stands between the two lines

    <!-- made by scripts/configuration_page.py: settings -->
    <!-- end of settings -->

That part is the table in src/twinbus/config/settings.py. A test compares the page with
what this script would write.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from twinbus.config.settings import SETTINGS, Setting

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "configuration.md"

HEAD = ("In the file", "Flag", "Variable", "Default", "Allowed", "Meaning")

_PART = re.compile(
    r"(<!-- made by scripts/configuration_page\.py: settings -->\n).*?"
    r"(<!-- end of settings -->)",
    re.DOTALL,
)


def row(setting: Setting) -> tuple[str, ...]:
    default = setting.written_default
    return (
        f"`{setting.name}`",
        f"`{setting.flag}`",
        f"`{setting.variable}`",
        f"`{default}`" if default else setting.if_empty,
        setting.kind.allowed,
        " ".join(filter(None, (setting.help, setting.details))),
    )


def line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def settings() -> str:
    rows = map(row, SETTINGS.values())
    return "".join(map(line, (HEAD, ("---",) * len(HEAD), *rows)))


def page() -> str:
    return _PART.sub(lambda m: f"{m[1]}{settings()}{m[2]}", PAGE.read_text())


if __name__ == "__main__":
    PAGE.write_text(page())
