"""The parts of docs/STYLE.md that a machine can judge, as a test.

It reads the files that are, or could be, under version control, so that what
make and the tools produce is left alone.
"""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]

FILE_LINES = 700
FUNCTION_LINES = 70

BANNED_WORDS_IN_NAMES = {
    *("util", "utils", "helper", "helpers", "common", "misc"),
    *("manager", "managers", "handler", "handlers"),
}
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


def version_controlled_files() -> list[Path]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    paths = {ROOT / name for name in listing.stdout.decode().split("\0") if name}
    return sorted(path for path in paths if path.is_file())


FILES = version_controlled_files()
TEXTS = [path for path in FILES if path.suffix in TEXT_SUFFIXES]
SOURCES = [path for path in FILES if path.suffix in SOURCE_SUFFIXES]
PYTHON = [path for path in FILES if path.suffix == ".py"]


def lines_matching(pattern: re.Pattern[str], paths: list[Path]) -> list[str]:
    return [
        f"{path}:{number}: {line}"
        for path in paths
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if pattern.search(line)
    ]


def function_lengths(path: Path) -> Iterator[tuple[str, int]]:
    """Each function's name and lines, without its docstring."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        documented = ast.get_docstring(node) is not None
        start = node.body[0].end_lineno if documented else node.lineno - 1
        yield node.name, (node.end_lineno or 0) - (start or 0)


def test_there_is_something_to_judge() -> None:
    assert Path(__file__) in PYTHON


def test_files_hold_one_room() -> None:
    line_counts = {path: len(path.read_text().splitlines()) for path in SOURCES}
    assert {p: count for p, count in line_counts.items() if count > FILE_LINES} == {}


def test_functions_hold_one_idea() -> None:
    offences = [
        f"{path}: {name} has {line_count} lines"
        for path in PYTHON
        for name, line_count in function_lengths(path)
        if line_count > FUNCTION_LINES
    ]
    assert offences == []


def test_length_of_a_function_leaves_out_its_docstring(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        'def f():\n    """One.\n\n    Two.\n    """\n    a = 1\n    b = 2\n'
    )
    assert list(function_lengths(module)) == [("f", 2)]


def test_files_open_with_their_idea() -> None:
    offences = [
        path
        for path in PYTHON
        if (text := path.read_text()).strip() and not ast.get_docstring(ast.parse(text))
    ]
    assert offences == []


def test_files_are_named_after_nouns_of_ours() -> None:
    offences = [
        path
        for path in FILES
        if BANNED_WORDS_IN_NAMES
        & set(re.split(r"[^a-z]+", str(path.relative_to(ROOT)).lower()))
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
