"""The import rules of docs/ARCHITECTURE.md, as a test.

Each package has a list of our packages that it may import. Pure packages also have a
list of what they may not use: clock, randomness, I/O, waiting. A new package fails here
until it has a row, so that its direction is a decision.
"""

import ast
from collections.abc import Iterator, Sequence
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from twinbus import compilation

PACKAGE = Path(compilation.__file__).parent

# Package or top-level module -> what it may import besides itself. A part of a package
# with rules of its own has a row of its own.
MAY_IMPORT = {
    "errors": set(),
    "limits": set(),
    "clock": set(),
    "instants": set(),
    "compilation": set(),
    "__init__": {"compilation"},
    "__main__": {"cli"},
    "durations": {"errors", "limits"},
    "config": {
        *("broker", "client", "durations", "errors", "limits", "rules", "rules/sql"),
    },
    "amqp": set(),
    "auth": {"errors", "limits"},
    "rules": {"errors", "limits"},
    "rules/sql": {"errors", "limits", "rules"},
    "broker": {"errors", "limits"},
    "encoding": {"amqp", "broker", "errors", "limits", "rules"},
    "fragments": {"broker", "encoding", "errors"},
    "topics": {"broker", "encoding", "rules"},
    "links": {"amqp", "broker", "encoding", "errors", "fragments", "limits"},
    "store": {"broker", "clock", "errors", "limits"},
    "client": {"amqp", "auth", "clock", "encoding", "errors", "limits"},
    # Private parts of the vendor's SDK: a package that needs nothing of ours.
    "sdk_internals": set(),
    "log_files": set(),
    "log_export": {"amqp", "broker", "clock", "log_files", "store"},
    "pairing": {
        *("amqp", "auth", "client", "clock", "durations", "encoding", "errors"),
        *("instants", "limits", "log_files", "sdk_internals"),
    },
    "spark": {
        *("amqp", "auth", "broker", "client", "clock", "durations", "encoding"),
        *("errors", "instants", "limits", "pairing", "sdk_internals"),
    },
    "owner": {"broker", "clock", "errors", "fragments", "limits", "store"},
    "outbox": {
        *("broker", "clock", "encoding", "errors", "limits", "links", "owner"),
        "store",
    },
    "throttling": {"clock", "errors", "owner"},
    "diagnosis": {
        *("__init__", "broker", "clock", "compilation", "config", "errors"),
        *("instants", "limits", "owner", "store", "throttling"),
    },
    "faults": {"broker", "clock", "durations", "errors", "limits", "store"},
    "cluster": {"clock", "errors", "limits", "owner", "store"},
    "entities": {
        *("auth", "broker", "clock", "config", "encoding", "errors", "fragments"),
        *("limits", "links", "outbox", "owner", "rules", "rules/sql", "store"),
        "topics",
    },
    "operations": {
        *("auth", "broker", "clock", "encoding", "entities", "errors", "fragments"),
        *("limits", "links", "owner", "rules", "store"),
    },
    "peers": {
        *("amqp", "broker", "client", "clock", "errors", "limits", "links"),
    },
    "doors": {"auth", "clock", "errors", "limits"},
    "doors/http": {
        *("amqp", "auth", "broker", "clock", "doors", "durations", "encoding"),
        *("entities", "errors", "faults", "instants", "limits", "operations", "peers"),
        *("rules", "rules/sql"),
    },
    "doors/amqp": {
        *("amqp", "auth", "broker", "clock", "doors", "encoding", "entities"),
        *("errors", "faults", "fragments", "limits", "links", "operations"),
        *("owner", "peers", "rules"),
        "rules/sql",
    },
    "doors/websocket": {"doors", "doors/http", "limits", "owner"},
    "process": {
        *("amqp", "auth", "broker", "client", "clock", "cluster", "compilation"),
        *("config", "diagnosis", "doors", "doors/amqp", "doors/http"),
        *("doors/websocket", "durations", "entities", "errors", "faults", "instants"),
        *("limits", "links", "operations"),
        *("outbox", "owner", "pairing", "peers", "rules", "store", "throttling"),
    },
    "testing": {
        *("broker", "clock", "config", "entities", "errors", "faults", "instants"),
        *("owner", "process", "rules", "sdk_internals", "store"),
    },
    "backup": {
        *("__init__", "broker", "clock", "config", "entities", "outbox", "process"),
        "store",
    },
    "cli": {
        *("amqp", "auth", "backup", "broker", "client", "clock", "cluster"),
        *("compilation", "config", "diagnosis", "durations", "encoding", "entities"),
        *("errors", "instants", "limits", "log_export", "log_files", "owner"),
        *("pairing", "process", "rules"),
        *("sdk_internals", "spark", "store", "testing"),
    },
}

PURE = ("amqp", "auth", "broker", "encoding", "fragments", "rules", "topics")
FORBIDDEN_IN_PURE = {
    *("asyncio", "concurrent", "io", "logging", "multiprocessing", "os", "pathlib"),
    *("psycopg", "random", "secrets", "select", "selectors", "signal", "socket"),
    *("sqlite3", "ssl", "subprocess", "tempfile", "threading", "time", "uvloop"),
}
CLOCK_CALLS = {"datetime.now", "datetime.utcnow", "datetime.today", "date.today"}
FORBIDDEN_CALLS = {
    *CLOCK_CALLS,
    *("uuid.uuid1", "uuid.uuid4", "uuid1", "uuid4", "open", "print", "input"),
}
WAITING = (ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith, ast.Await)

MODULES = sorted(PACKAGE.rglob("*.py"))


def package_of(path: Path) -> str:
    """The row of the table that a file belongs to."""
    return row_of(path.relative_to(PACKAGE).with_suffix("").parts)


def row_of(parts: Sequence[str]) -> str:
    """The row of a module: that of the part of its package, if it has one."""
    part = "/".join(parts[:2])
    return part if part in MAY_IMPORT else parts[0]


def allowed_to(path: Path) -> set[str]:
    return MAY_IMPORT.get(package_of(path), set())


def imported_modules(path: Path) -> Iterator[str]:
    """Full names of all that a file imports, at any depth of its code."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            # `from twinbus import errors` imports the module twinbus.errors.
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def own_packages_imported(path: Path) -> set[str]:
    names = [name.split(".") for name in imported_modules(path)]
    rows = {row_of(name[1:]) for name in names if name[0] == "twinbus" and name[1:]}
    # The version is an attribute of the package itself.
    return rows - {package_of(path), "__version__"}


def roots_imported(path: Path) -> set[str]:
    return {name.partition(".")[0] for name in imported_modules(path)}


def calls(path: Path) -> set[str]:
    return {called_name(node) for node in ast.walk(ast.parse(path.read_text()))}


def called_name(node: ast.AST) -> str:
    """`datetime.now` of the call `datetime.now()`; the last two names at most."""
    if not isinstance(node, ast.Call):
        return ""
    if isinstance(node.func, ast.Name):
        return node.func.id
    if isinstance(node.func, ast.Attribute):
        owner = node.func.value
        name = (
            owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
        )
        return f"{name}.{node.func.attr}"
    return ""


def in_package(*names: str) -> list[Path]:
    return [module for module in MODULES if package_of(module) in names]


def test_every_package_has_a_row() -> None:
    assert {package_of(module) for module in MODULES} <= set(MAY_IMPORT)


def test_the_table_has_no_cycle() -> None:
    assert list(TopologicalSorter(MAY_IMPORT).static_order())


def test_modules_import_only_what_their_package_may() -> None:
    offences = {
        str(module): beyond
        for module in MODULES
        if (beyond := own_packages_imported(module) - allowed_to(module))
    }
    assert offences == {}


def test_pure_modules_import_nothing_that_does() -> None:
    offences = {
        str(module): forbidden
        for module in in_package(*PURE)
        if (forbidden := roots_imported(module) & FORBIDDEN_IN_PURE)
    }
    assert offences == {}


def test_pure_modules_neither_wait_nor_ask_the_world() -> None:
    offences = [
        f"{module}:{node.lineno}"
        for module in in_package(*PURE)
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, WAITING) or called_name(node) in FORBIDDEN_CALLS
    ]
    assert offences == []


def test_only_the_clock_tells_the_time() -> None:
    tellers = {
        module
        for module in MODULES
        if "time" in roots_imported(module) or CLOCK_CALLS & calls(module)
    }
    assert tellers == {PACKAGE / "clock.py"}


def test_what_is_compiled_imports_only_what_the_digest_covers() -> None:
    # compilation.py takes the digest of compiled packages and top-level modules.
    compiled = {package_of(source) for source in compilation.compiled_sources()}
    top_level = {path.stem for path in PACKAGE.glob("*.py")}
    for source in compilation.compiled_sources():
        assert own_packages_imported(source) <= compiled | top_level


def test_plain_parts_of_compiled_packages_have_rows() -> None:
    # Without one, a compiled module of the same package could import them.
    assert set(compilation.PLAIN) <= set(MAY_IMPORT)
    assert not set(compilation.PLAIN) & {
        package_of(source) for source in compilation.compiled_sources()
    }


@pytest.mark.parametrize(
    "code",
    [
        "import twinbus.rules.sql.parsing",
        "from twinbus.rules.sql import parsing",
        "from twinbus.rules import sql",
        "def f():\n    from twinbus.rules.sql.parsing import parse_filter",
    ],
)
def test_a_part_with_a_row_of_its_own_is_told_from_its_package(
    code: str, tmp_path: Path
) -> None:
    module = tmp_path / "module.py"
    module.write_text(code)
    (name,) = imported_modules(module)
    assert row_of(name.split(".")[1:]) == "rules/sql"


@pytest.mark.parametrize(
    "code",
    [
        "import twinbus.owner.store_owner",
        "from twinbus.owner import store_owner",
        "from twinbus import owner",
        "def f():\n    from twinbus.owner.store_owner import StoreOwner",
    ],
)
def test_no_form_of_import_escapes(code: str, tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(code)
    assert {name.split(".")[1] for name in imported_modules(module)} == {"owner"}


@pytest.mark.parametrize(
    "code", ["datetime.now()", "datetime.datetime.now()", "x = [datetime.now(UTC)]"]
)
def test_no_form_of_call_escapes(code: str, tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(code)
    assert "datetime.now" in calls(module)
