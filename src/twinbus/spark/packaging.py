"""Packs this package into an archive for executors where it is not installed.

    spark-submit --py-files twinbus-spark.zip job.py

Python imports directly from the archive. So it has only sources, because compiled
modules cannot be imported from an archive, and the pure package `mypy_extensions`. The
hosts must have `pyarrow` and, for namespaces that are not twinbus, `azure-servicebus`.
"""

import importlib.util
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo
from zipimport import zipimporter

import twinbus

_PACKAGES: Final = ("twinbus", "pyspark_servicebus")
_MODULES: Final = ("mypy_extensions",)
_SUFFIXES: Final = (".py", ".lark", ".sql")
_SKIPPED: Final = ("__pycache__", "_native")

_INSTANT: Final = (1980, 1, 1, 0, 0, 0)
"""The time of all files, so that the same sources make the same archive."""


def write_archive(file: Path) -> Path:
    """Write the archive, and return where it is. Raises OSError."""
    own = _own_archive()
    if own is not None:
        shutil.copyfile(own, file)
        return file
    with ZipFile(file, "w", ZIP_DEFLATED) as archive:
        for name, source in sorted(_contents()):
            archive.writestr(ZipInfo(name, _INSTANT), source.read_bytes(), ZIP_DEFLATED)
    return file


def _own_archive() -> str | None:
    """The archive that this code was imported from, if it was."""
    loader: object = twinbus.__spec__.loader
    return loader.archive if isinstance(loader, zipimporter) else None


def _contents() -> Iterator[tuple[str, Path]]:
    """Names in the archive, and their files."""
    for package in _PACKAGES:
        folder = _origin(package).parent
        for source in folder.rglob("*"):
            inside = source.relative_to(folder.parent)
            if source.suffix in _SUFFIXES and not set(_SKIPPED) & set(inside.parts):
                yield inside.as_posix(), source
    for module in _MODULES:
        origin = _origin(module)
        yield origin.name, origin


def _origin(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.origin is not None, f"{name} is not installed"
    return Path(spec.origin)
