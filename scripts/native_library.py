"""Compiles the hot modules to shared libraries: in parts, on all cores.

mypyc writes a C file for each module. A *part* is some files of one package that are
compiled together; there are enough parts to keep all cores busy. An object file is
kept under the digest of everything it was made from. So a part that did not change
is not compiled again, and a compilation that was stopped continues where it was.

All parts are linked into one library, and its functions are hidden from other
libraries: a call from one package to another is a direct C call. Python looks for
a function named after the module it imports, so each package also gets a small
library, its *entry*, with one such function for each of its modules.

It does not know which modules are hot, nor where the libraries go in the end.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from sysconfig import get_path

from setuptools import Extension  # first: it provides distutils

# isort: split
from distutils.ccompiler import new_compiler
from distutils.sysconfig import customize_compiler

# Measured in docs/decisions/0003-compilation.md.
OPTIMISATION_LEVEL = "2"

# Without it each call of a function in another module, and each use of a variable
# of the library, goes through a table that would let other libraries replace it.
HIDDEN = "-fvisibility=hidden"

# Larger parts leave a core without work at the end; and each part reads half a
# megabyte of declarations first.
PART_BYTES = 1_000_000

# Enough for several builds of some thirty objects.
KEPT_OBJECT_COUNT = 200

# mypyc names a C file after its module, and writes each dot so.
_DOT = "___"


def translate(sources: list[Path], group: str, folder: Path) -> list[Extension]:
    """Have mypyc write C files: of the whole library first, then of each module."""
    from mypyc.build import mypycify

    return mypycify(
        [str(source) for source in sources],
        group_name=group,
        target_dir=str(folder),
        multi_file=True,
        opt_level=OPTIMISATION_LEVEL,
        debug_level="0",
    )


def build_libraries(extensions: list[Extension], folder: Path) -> dict[str, Path]:
    """Library name -> file: the one with all code, and the entry of each package."""
    whole, *modules = extensions
    workshop = Workshop(folder, whole)
    parts = [include(part) for part in code_parts(map(Path, whole.sources))]
    entries = entry_parts({module.name: Path(module.sources[0]) for module in modules})
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        objects = list(pool.map(workshop.compile, [*parts, *entries.values()]))
    libraries = {whole.name: objects[: len(parts)]}
    for name, entry in zip(entries, objects[len(parts) :], strict=True):
        libraries[name] = [entry]
    workshop.forget_old_objects()
    return {name: workshop.link(name, made) for name, made in libraries.items()}


def code_parts(files: Iterable[Path]) -> list[list[Path]]:
    """C files by package, and large packages cut; the largest part first."""
    parts: list[list[Path]] = []
    for _, group in groupby(sorted(files), key=_package_of):
        part_bytes = PART_BYTES
        for file in group:
            if part_bytes >= PART_BYTES:
                parts.append([])
                part_bytes = 0
            parts[-1].append(file)
            part_bytes += file.stat().st_size
    return sorted(parts, key=_size_bytes, reverse=True)


def _package_of(file: Path) -> str:
    return file.stem.rpartition(_DOT)[0]


def _size_bytes(part: list[Path]) -> int:
    return sum(file.stat().st_size for file in part)


def include(files: Iterable[Path]) -> str:
    """A C program made of these files."""
    return "".join(f'#include "{file.resolve()}"\n' for file in files)


def entry_parts(files: dict[str, Path]) -> dict[str, str]:
    """Package -> the C program of its entry, from the C file of each module."""
    entries: dict[str, str] = {}
    for module, file in files.items():
        package = module.rpartition(".")[0]
        # Each file defines this as well, for the sake of another compiler.
        unused = f"#undef PyInit___init__\n#define PyInit___init__ unused_{file.stem}\n"
        entries[package] = entries.get(package, "") + unused + include([file])
    return entries


class Workshop:
    """The C compiler with its flags, and the object files that are kept."""

    def __init__(self, folder: Path, whole: Extension) -> None:
        self._compiler = new_compiler()
        customize_compiler(self._compiler)
        self._include_dirs = [*whole.include_dirs, get_path("include")]
        self._flags = [*whole.extra_compile_args, HIDDEN]
        self._folder = folder
        self._objects = folder / "objects"
        self._objects.mkdir(exist_ok=True)
        # What a compilation that was killed has left.
        self._drafts = folder / "drafts"
        shutil.rmtree(self._drafts, ignore_errors=True)
        self._drafts.mkdir()
        self._shared_digest = self._digest_what_all_parts_share()

    def compile(self, program: str) -> Path:
        """The object file of a C program: made now, or kept from before."""
        kept = self._objects / f"{self._digest(program)}.o"
        if kept.exists():
            kept.touch()
            return kept
        with tempfile.TemporaryDirectory(dir=self._drafts) as draft:
            source = Path(draft, "part.c")
            source.write_text(program)
            (made,) = self._compiler.compile(
                [str(source)],
                output_dir=draft,
                include_dirs=self._include_dirs,
                extra_postargs=self._flags,
            )
            # A kept file is complete, even if this process is killed.
            os.replace(made, kept)
        return kept

    def link(self, name: str, objects: list[Path]) -> Path:
        """The shared library of these object files."""
        library = self._folder / f"{name}.so"
        files = [str(made) for made in objects]
        self._compiler.link_shared_object(files, str(library))
        return library

    def forget_old_objects(self) -> None:
        """Remove the object files that were not used for longest."""
        files = sorted(self._objects.iterdir(), key=lambda file: file.stat().st_mtime)
        for file in files[:-KEPT_OBJECT_COUNT]:
            file.unlink()

    def _digest(self, program: str) -> str:
        digest = self._shared_digest.copy()
        for line in program.splitlines(keepends=True):
            digest.update(line.encode())
            if line.startswith("#include"):
                digest.update(Path(line.split('"')[1]).read_bytes())
        return digest.hexdigest()

    def _digest_what_all_parts_share(self) -> "sha256":
        compiler = self._compiler.compiler_so
        said = subprocess.run(
            [compiler[0], "--version"], capture_output=True, text=True, check=True
        )
        tools = (sys.version, version("mypy"), said.stdout)
        flags = (*compiler, *self._flags, *self._include_dirs)
        digest = sha256("\0".join((*tools, *flags)).encode())
        for header in sorted(self._folder.rglob("*.h")):
            digest.update(header.read_bytes())
        return digest
