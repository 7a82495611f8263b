"""Which form of the hot modules runs: compiled by mypyc, or plain Python.

Compiled modules live in `_native/<digest>/`, a folder named after the digest of
the sources they were made from. On import of the package the digest is taken
anew: if the folder is there, its modules are used, otherwise the plain ones.
So code that differs from its source cannot be run, and an edit is enough to be
back in plain Python. `TWINBUS_PURE=1` chooses plain where both are there.

`setup.py` loads this file alone, before the package can be imported: it knows
the standard library only. It does not know how modules are compiled.
"""

import os
import sys
from collections.abc import Sequence
from hashlib import sha256
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

PACKAGE = Path(__file__).parent

# The packages that are compiled, without their __init__ files.
COMPILED = (
    *("amqp", "broker", "encoding", "fragments", "links", "rules", "store/rows"),
    "topics",
)

# Folders of compiled packages that stay plain Python. Compiled modules do not import
# them. `rules/sql` runs once per rule, on a parser library that has no types.
PLAIN = ("rules/sql",)

# All compiled code is in one library of this name. Beside it each package has a small
# one, named after the package, in which Python finds the package's modules.
LIBRARY = "twinbus__mypyc"

# How the file names of compiled modules end; names this Python and platform.
SUFFIX = EXTENSION_SUFFIXES[0]

PURE_VARIABLE = "TWINBUS_PURE"


def compiled_sources() -> list[Path]:
    """The files to compile, of those that exist."""
    return [
        source
        for source in _covered_sources()
        if source.parent != PACKAGE and source.name != "__init__.py"
    ]


def native_folder() -> Path:
    """Where the compiled form of the sources as they are now would be."""
    return PACKAGE / "_native" / _digest()


def describe() -> str:
    """One of `compiled` and `plain`, with the reason for the latter."""
    if any(isinstance(finder, NativeFinder) for finder in sys.meta_path):
        return "compiled"
    if _is_pure_wanted():
        return f"plain: {PURE_VARIABLE} is set"
    return "plain: not compiled for this source and this Python"


def activate() -> None:
    """Let imports find the compiled modules, if they are there and wanted."""
    if _is_pure_wanted():
        return
    modules = _native_modules(native_folder())
    if modules:
        sys.meta_path.insert(0, NativeFinder(modules))


class NativeFinder:
    """Finds compiled modules by full name, ahead of their plain form."""

    def __init__(self, modules: dict[str, Path]) -> None:
        # Full module name -> shared library; never changed.
        self._modules = modules

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        library = self._modules.get(fullname)
        if library is None:
            return None
        loader = ExtensionFileLoader(fullname, str(library))
        return spec_from_file_location(fullname, library, loader=loader)


def _is_pure_wanted() -> bool:
    return os.environ.get(PURE_VARIABLE, "") not in ("", "0")


def _native_modules(folder: Path) -> dict[str, Path]:
    libraries = {
        library.name.removesuffix(SUFFIX): library
        for library in folder.glob(f"*{SUFFIX}")
    }
    if not libraries:
        return {}
    modules = {LIBRARY: libraries[LIBRARY]}
    for source in compiled_sources():
        package = ".".join(source.parent.relative_to(PACKAGE.parent).parts)
        modules[f"{package}.{source.stem}"] = libraries[package]
    return modules


def _covered_sources() -> list[Path]:
    # mypyc copies constants of imported modules into what it compiles. Compiled
    # modules import only each other and top-level modules
    # (tests/unit/test_architecture.py), so that is what the digest covers.
    sources = set(PACKAGE.glob("*.py"))
    for name in COMPILED:
        sources.update((PACKAGE / name).rglob("*.py"))
    for name in PLAIN:
        sources.difference_update((PACKAGE / name).rglob("*.py"))
    return sorted(sources)


def _digest() -> str:
    digest = sha256(SUFFIX.encode())
    for source in _covered_sources():
        digest.update(str(source.relative_to(PACKAGE)).encode() + b"\0")
        digest.update(source.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
