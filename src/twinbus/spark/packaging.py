"""This package as one file that executors can import: `--py-files twinbus.zip`.

    python -m twinbus.spark.packaging twinbus.zip

It has what a worker needs besides Python and pyarrow, as plain Python: compiled modules
cannot be imported from an archive. The same sources make the same bytes, so that a
file need not be shipped anew because it was written anew.
"""

import importlib.util
import shutil
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from zipimport import zipimporter

import twinbus

_PACKAGES: Final = ("twinbus", "pyspark_servicebus")
_MODULES: Final = ("mypy_extensions",)
_SUFFIXES: Final = (".py", ".lark", ".sql")
_NATIVE: Final = "_native"


def write_package(file: Path) -> Path:
    """Write the archive; what was there under that name is replaced."""
    archive = _own_archive()
    if archive is not None:
        shutil.copyfile(archive, file)
        return file
    with zipfile.ZipFile(file, "w") as written:
        for source, name in sorted(_sources(), key=lambda pair: pair[1]):
            # Without the time, which would make every archive another one.
            named = zipfile.ZipInfo(name)
            written.writestr(named, source.read_bytes(), zipfile.ZIP_DEFLATED)
    return file


def _own_archive() -> str | None:
    """The archive that this very code was imported from, if it was."""
    loader: object = twinbus.__spec__ and twinbus.__spec__.loader
    return loader.archive if isinstance(loader, zipimporter) else None


def _sources() -> Iterator[tuple[Path, str]]:
    """Files, and what they are called in the archive."""
    for package in _PACKAGES:
        folder = _origin(package).parent
        for file in folder.rglob("*"):
            inside = file.relative_to(folder)
            if file.suffix in _SUFFIXES and _NATIVE not in inside.parts:
                yield file, f"{package}/{inside.as_posix()}"
    for module in _MODULES:
        yield _origin(module), f"{module}.py"


def _origin(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.origin is not None, f"{name} is not installed"
    return Path(spec.origin)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m twinbus.spark.packaging FILE.zip")
    write_package(Path(sys.argv[1]))
