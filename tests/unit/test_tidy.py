"""The rules of docs/STYLE.md about files, functions and texts, as a test.

Those about names are in `test_names.py`, those about imports in
`test_architecture.py`.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from unit.tree import (
    COMPILED,
    FILES,
    OURS,
    PACKAGE,
    PYTHON,
    ROOT,
    TESTS,
    Function,
    classes,
    functions,
    parsed,
    shown,
)

FILE_LINES = 700
FILE_LINES_AIM = 400
FUNCTION_LINES = 70
FUNCTION_LINES_AIM = 30
DOCSTRING_LINES = 25
# One in so many may be longer than it aims to be.
LONG_FILES_PART = 20
LONG_FUNCTIONS_PART = 50

UNFINISHED = re.compile(r"\b(TODO|FIXME|HACK)\b")
BANNER = re.compile(r"^\s*(#|//|/\*)\s*[-=*#~_]{4,}")
PICTOGRAM = re.compile("[\u2600-\u27bf\U0001f300-\U0001faff]")
# Written so that this file does not contain what it looks for.
FOREIGN_PLACES = re.compile(
    r"/roo[t]/|/hom[e]/\w|/wor[k]/|/User[s]/|pypi\.or[g]|pythonhosted\.or[g]"
    r"|registry\.npmj[s]|localhost:808[0]/simple"
)

SOURCE_SUFFIXES = {".py", ".c", ".h", ".sh", ".sql"}
TEXT_SUFFIXES = {*SOURCE_SUFFIXES, ".md", ".toml", ".yaml", ".yml", ".json", ".txt", ""}

TEXTS = [path for path in FILES if path.suffix in TEXT_SUFFIXES]
SOURCES = [path for path in FILES if path.suffix in SOURCE_SUFFIXES]

# It makes the classes of AMQP's types when it is imported, and nothing afterwards.
NESTED_FUNCTIONS = {PACKAGE / "amqp" / "composite.py"}

SLEEPS = {"asyncio.sleep", "time.sleep", "sleep"}
SLEEP_SECONDS = 0.5
# In unit and sim tests the clock is moved; pairs wait for real outages.
SLEEPING_FOLDERS = {"unit", "sim", "pairs"}


def lines_matching(pattern: re.Pattern[str], paths: list[Path]) -> list[str]:
    return [
        f"{path}:{number}: {line}"
        for path in paths
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if pattern.search(line)
    ]


def line_count(path: Path) -> int:
    return len(path.read_text().splitlines())


def function_lines(function: Function) -> int:
    """Decorators, signature and body, without the docstring."""
    first = min(node.lineno for node in (function, *function.decorator_list))
    count = (function.end_lineno or 0) - first + 1
    if ast.get_docstring(function) is not None:
        docstring = function.body[0]
        count -= (docstring.end_lineno or 0) - docstring.lineno + 1
    return count


def decorator_calls(node: ast.ClassDef, name: str) -> Iterator[set[str]]:
    """The keywords of each decorator of that name."""
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == name:
            yield {str(keyword.arg) for keyword in decorator.keywords}
        elif ast.unparse(decorator) == name:
            yield set()


def is_long_sleep(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or ast.unparse(node.func) not in SLEEPS:
        return False
    seconds = node.args[0] if node.args else None
    return isinstance(seconds, ast.Constant) and float(seconds.value) > SLEEP_SECONDS


def test_there_is_something_to_judge() -> None:
    assert Path(__file__) in PYTHON
    assert COMPILED
    assert len(COMPILED) < len(OURS)


def test_files_hold_one_room() -> None:
    long = {shown(path): line_count(path) for path in SOURCES}
    assert {name: count for name, count in long.items() if count > FILE_LINES} == {}


def test_most_files_are_as_short_as_they_aim_to_be() -> None:
    longer = [shown(path) for path in OURS if line_count(path) > FILE_LINES_AIM]
    assert len(longer) * LONG_FILES_PART <= len(OURS), longer


def test_functions_hold_one_idea() -> None:
    offences = [
        f"{shown(path)}: {function.name} has {count} lines"
        for path in PYTHON
        for function in functions(parsed(path))
        if (count := function_lines(function)) > FUNCTION_LINES
    ]
    assert offences == []


def test_most_functions_are_as_short_as_they_aim_to_be() -> None:
    counts = {
        f"{shown(path)}: {function.name}": function_lines(function)
        for path in OURS
        for function in functions(parsed(path))
    }
    longer = [name for name, count in counts.items() if count > FUNCTION_LINES_AIM]
    assert len(longer) * LONG_FUNCTIONS_PART <= len(counts), longer


def test_length_of_a_function_counts_all_but_its_docstring() -> None:
    text = (
        "@first\n@second(\n    1\n)\ndef f(\n    a: int,\n) -> None:\n"
        '    """One.\n\n    Two.\n    """\n    b = a\n    c = b\n'
    )
    [function] = functions(ast.parse(text))
    assert function_lines(function) == 9


def test_files_open_with_their_idea() -> None:
    offences = [
        shown(path)
        for path in PYTHON
        if path.read_text().strip() and not ast.get_docstring(parsed(path))
    ]
    assert offences == []


def test_docstrings_of_files_fit_on_a_page() -> None:
    counts = {
        shown(path): len((ast.get_docstring(parsed(path)) or "").splitlines())
        for path in PYTHON
    }
    assert {name: n for name, n in counts.items() if n > DOCSTRING_LINES} == {}


def test_dataclasses_have_slots() -> None:
    offences = [
        f"{shown(path)}: {node.name}"
        for path in OURS
        for node in classes(parsed(path))
        for keywords in decorator_calls(node, "dataclass")
        # One that extends a class of others has a __dict__ in any case.
        if "slots" not in keywords and not node.bases
    ]
    assert offences == []


def test_compiled_classes_have_one_base() -> None:
    offences = [
        f"{shown(path)}: {node.name}"
        for path in COMPILED
        for node in classes(parsed(path))
        if len(node.bases) > 1
    ]
    assert offences == []


def test_compiled_functions_neither_nest_nor_yield() -> None:
    offences = [
        f"{shown(path)}:{node.lineno}"
        for path in COMPILED
        if path not in NESTED_FUNCTIONS
        for function in functions(parsed(path))
        for node in ast.walk(function)
        if node is not function
        and isinstance(node, Function | ast.Lambda | ast.Yield | ast.YieldFrom)
    ]
    assert offences == []


def test_errors_that_clients_see_come_from_one_file() -> None:
    offences = [
        f"{shown(path)}: {node.name}"
        for path in OURS
        if path != PACKAGE / "errors.py"
        for node in classes(parsed(path))
        if "ServiceBusError" in map(ast.unparse, node.bases)
    ]
    assert offences == []


def test_tests_wait_for_conditions() -> None:
    offences = [
        f"{shown(path)}:{node.lineno}: {ast.unparse(node)}"
        for path in TESTS
        if path.relative_to(ROOT / "tests").parts[0] not in SLEEPING_FOLDERS
        for node in ast.walk(parsed(path))
        if is_long_sleep(node)
    ]
    assert offences == []


def test_nothing_is_left_unfinished() -> None:
    sources = [path for path in SOURCES if path != Path(__file__)]
    assert lines_matching(UNFINISHED, sources) == []


def test_there_are_no_banners() -> None:
    assert lines_matching(BANNER, SOURCES) == []


def test_texts_name_no_machine() -> None:
    assert lines_matching(FOREIGN_PLACES, TEXTS) == []


def test_texts_have_no_pictograms() -> None:
    assert lines_matching(PICTOGRAM, TEXTS) == []
