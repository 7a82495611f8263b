"""The files of the repository, and what their code defines, for tests of style.

Only files that are, or could be, under version control; output of make and of the tools
is ignored.
"""

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from twinbus import compilation

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "twinbus"

Function = ast.FunctionDef | ast.AsyncFunctionDef


def version_controlled_files() -> list[Path]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    paths = {ROOT / name for name in listing.stdout.decode().split("\0") if name}
    return sorted(path for path in paths if path.is_file())


FILES = version_controlled_files()
PYTHON = [path for path in FILES if path.suffix == ".py"]
OURS = [path for path in PYTHON if path.is_relative_to(PACKAGE)]
_COMPILED_SOURCES = set(compilation.compiled_sources())
COMPILED = [path for path in OURS if path in _COMPILED_SOURCES]
TESTS = [path for path in PYTHON if path.is_relative_to(ROOT / "tests")]


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


def functions(tree: ast.AST) -> Iterator[Function]:
    for node in ast.walk(tree):
        if isinstance(node, Function):
            yield node


def classes(tree: ast.AST) -> Iterator[ast.ClassDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node


def public_names(path: Path, *kinds: type[ast.stmt]) -> list[str]:
    """Of definitions of these kinds at the top of a module."""
    found = [node for node in parsed(path).body if isinstance(node, kinds)]
    names = [str(vars(node)["name"]) for node in found]
    return [name for name in names if not name.startswith("_")]


def words(name: str) -> set[str]:
    """Of a class, a function or a file, in lower case."""
    return set(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_")) - {""}
