"""SQL from files: named statements, and the steps of a migration.

A file of statements is a list of `-- name: NAME` lines, each followed by one
statement. `-- part: NAME` is followed by what several statements must say in the
same words; what comes after it takes it in as `{NAME}`. A migration is a script
`NNNN_title.sql`; its number is the format it leads to. Scripts are taken apart
here, because running one as a whole would end the transaction in which a migration
must happen.
"""

import re
from importlib.resources import files
from sqlite3 import complete_statement

_SECTION = re.compile(r"^-- (name|part): (\w+)\n", re.MULTILINE)
_SQL_PACKAGE = "twinbus.store.sql"


def named_statements(file_name: str) -> dict[str, str]:
    """The statements of a file of `sql/`, by name."""
    text = files(_SQL_PACKAGE).joinpath(file_name).read_text(encoding="utf-8")
    _, *sections = _SECTION.split(text)
    parts: dict[str, str] = {}
    statements: dict[str, str] = {}
    for kind, name, section in zip(*(sections[i::3] for i in range(3)), strict=True):
        for part, meaning in parts.items():
            section = section.replace(f"{{{part}}}", meaning)
        (parts if kind == "part" else statements)[name] = section.strip()
    return statements


def migrations(folder: str) -> list[tuple[int, list[str]]]:
    """The migrations of a folder of `sql/`: format and statements, in order."""
    scripts = files(_SQL_PACKAGE).joinpath(folder).iterdir()
    return sorted(
        (int(script.name[:4]), _split(script.read_text(encoding="utf-8")))
        for script in scripts
        if script.name.endswith(".sql")
    )


def _split(script: str) -> list[str]:
    statements = []
    begun = ""
    for line in script.splitlines(keepends=True):
        begun += line
        if complete_statement(begun):
            statements.append(begun.strip())
            begun = ""
    return statements
