"""SQL from files: named statements, and the steps of a migration.

A file of statements is a list of `-- name: NAME` lines, each followed by one
statement. A migration is a script `NNNN_title.sql`; its number is the format it
leads to. Scripts are taken apart here, because running one as a whole would end
the transaction in which a migration must happen.
"""

import re
from importlib.resources import files
from sqlite3 import complete_statement

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_SQL_PACKAGE = "twinbus.store.sql"


def named_statements(file_name: str) -> dict[str, str]:
    """The statements of a file of `sql/`, by name."""
    text = files(_SQL_PACKAGE).joinpath(file_name).read_text(encoding="utf-8")
    _, *parts = _NAME.split(text)
    return {
        name: statement.strip()
        for name, statement in zip(parts[::2], parts[1::2], strict=True)
    }


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
