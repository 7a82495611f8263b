"""Compiled modules are used exactly if they match the sources and are wanted.

A package of one module is created in a temporary folder, and a new Python process
imports it, because the choice is made once per process. The libraries are empty files:
they are found, never loaded.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from twinbus import compilation


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the choosing part of the package with one hot module."""
    root = tmp_path / "twinbus"
    (root / "broker").mkdir(parents=True)
    for name in ("__init__.py", "compilation.py"):
        (root / name).write_text((compilation.PACKAGE / name).read_text())
    (root / "broker" / "__init__.py").write_text("")
    (root / "broker" / "queue.py").write_text("")
    return root


def run(package: Path, program: str, **environment: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(package.parent), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return result.stdout.strip()


DESCRIBE = "from twinbus import compilation; print(compilation.describe())"
NATIVE_FOLDER = "from twinbus import compilation; print(compilation.native_folder())"
FOUND = "import importlib.util as u; print(u.find_spec('twinbus.broker.queue').origin)"


def compile_in_pretence(package: Path) -> Path:
    folder = Path(run(package, NATIVE_FOLDER))
    folder.mkdir(parents=True)
    (folder / f"{compilation.LIBRARY}{compilation.SUFFIX}").write_bytes(b"")
    library = folder / f"twinbus.broker{compilation.SUFFIX}"
    library.write_bytes(b"")
    return library


def test_plain_where_nothing_is_compiled(package: Path) -> None:
    assert run(package, DESCRIBE).startswith("plain: not compiled")
    assert run(package, FOUND) == str(package / "broker" / "queue.py")


def test_compiled_where_it_matches_the_sources(package: Path) -> None:
    library = compile_in_pretence(package)
    assert run(package, DESCRIBE) == "compiled"
    assert run(package, FOUND) == str(library)


@pytest.mark.parametrize("edited", ["broker/queue.py", "limits.py", "broker/new.py"])
def test_plain_after_an_edit(package: Path, edited: str) -> None:
    compile_in_pretence(package)
    (package / edited).write_text("EDITED = True\n")
    assert run(package, DESCRIBE).startswith("plain: not compiled")


def test_edit_of_what_is_not_compiled_changes_nothing(package: Path) -> None:
    library = compile_in_pretence(package)
    (package / "cli").mkdir()
    (package / "cli" / "main.py").write_text("")
    assert run(package, FOUND) == str(library)


def test_variable_chooses_plain(package: Path) -> None:
    compile_in_pretence(package)
    pure = {compilation.PURE_VARIABLE: "1"}
    assert run(package, DESCRIBE, **pure) == "plain: TWINBUS_PURE is set"
    assert run(package, FOUND, **pure) == str(package / "broker" / "queue.py")


def test_compiled_for_another_python_is_not_used(package: Path) -> None:
    folder = compile_in_pretence(package).parent
    for library in folder.iterdir():
        library.rename(folder / f"{library.name.split('.cpython')[0]}.cpython-30.so")
    assert run(package, DESCRIBE).startswith("plain: not compiled")


def test_package_inside_a_compiled_package_is_left_plain(package: Path) -> None:
    inner = package / "broker" / "inner"
    inner.mkdir()
    (inner / "__init__.py").write_text("")
    compile_in_pretence(package)
    assert run(package, FOUND.replace("queue", "inner")) == str(inner / "__init__.py")


def test_library_of_all_modules_is_found_by_its_own_name() -> None:
    finder = compilation.NativeFinder({compilation.LIBRARY: Path("library.so")})
    spec = finder.find_spec(compilation.LIBRARY)
    assert spec is not None
    assert spec.name == compilation.LIBRARY
    assert finder.find_spec("twinbus.errors") is None


def test_inits_are_left_plain() -> None:
    sources = compilation.compiled_sources()
    assert sources
    assert not [source for source in sources if source.name == "__init__.py"]
