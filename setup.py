"""Builds the package, with its hot modules compiled where that is possible.

Everything static is in `pyproject.toml`. Here is one thing: the command
`native`, which compiles the modules listed in `twinbus/compilation.py` and puts
the result where that file looks for it. It runs as a part of every wheel build,
where a failure means a plain wheel and a warning. Run by itself (`make compiled`)
a failure is an error. A machine without a C compiler is no failure in either case.

It does not know which modules are hot, nor when the compiled ones are used.
"""

import fcntl
import importlib.util
import os
import runpy
import shutil
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from setuptools import Command, Distribution, setup
from setuptools.command.build_py import build_py

compilation = runpy.run_path("src/twinbus/compilation.py")
native_library = runpy.run_path("scripts/native_library.py")

BUILD_FOLDER = "build/mypyc"
KEPT_BUILD_COUNT = 3


def missing_tool() -> str | None:
    """What keeps this machine from compiling, or nothing."""
    if os.environ.get(compilation["PURE_VARIABLE"], "") not in ("", "0"):
        return f"{compilation['PURE_VARIABLE']} is set"
    if importlib.util.find_spec("mypyc") is None:
        return "mypyc is not installed"
    compiler = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    if shutil.which(compiler.split()[0]) is None:
        return "there is no C compiler (Debian: apt-get install gcc python3-dev)"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return "Python.h is missing (Debian: apt-get install python3-dev)"
    return None


@contextmanager
def only_compilation() -> Iterator[None]:
    """Wait for the end of another compilation in this tree, and keep others waiting."""
    folder = Path(BUILD_FOLDER)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Waiting for the compilation that is under way", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class Native(Command):
    """Compile the hot modules into the folder named after their digest."""

    description = "compile the hot modules with mypyc"
    user_options: ClassVar = [
        ("build-lib=", None, "package root to write to [src]"),
        ("check", None, "only say what keeps this machine from compiling, if anything"),
    ]
    boolean_options: ClassVar = ["check"]

    def initialize_options(self) -> None:
        self.build_lib = "src"
        self.check = False

    def finalize_options(self) -> None:
        pass

    def run(self) -> None:
        reason = missing_tool()
        if reason is not None:
            print(f"twinbus runs as plain Python: {reason}")
        elif not self.check:
            self._compile()

    def _compile(self) -> None:
        folder = compilation["native_folder"]()
        target = Path(self.build_lib, *folder.parts[-3:])
        with only_compilation():
            if not target.exists():
                self._compile_into(target)

    def _compile_into(self, target: Path) -> None:
        folder = Path(BUILD_FOLDER)
        extensions = native_library["translate"](
            compilation["compiled_sources"](),
            compilation["LIBRARY"].removesuffix("__mypyc"),
            folder,
        )
        # Which source of an edited file was read is not known.
        if compilation["native_folder"]().name != target.name:
            raise SystemExit("The sources changed while they were compiled: try again")
        libraries = native_library["build_libraries"](extensions, folder)
        # Other processes may be looking: the folder appears complete or not at
        # all, and is never written to again.
        draft = target.with_name("draft")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        for name, library in libraries.items():
            shutil.copy2(library, draft / f"{name}{compilation['SUFFIX']}")
        draft.rename(target)
        self._forget_old_builds(target.parent)

    def _forget_old_builds(self, parent: Path) -> None:
        # A process started from an older source may still import from its folder.
        builds = sorted(parent.iterdir(), key=lambda build: build.stat().st_mtime)
        for build in builds[:-KEPT_BUILD_COUNT]:
            shutil.rmtree(build, ignore_errors=True)


class BuildPackage(build_py):
    """Copy the Python files, then add the compiled modules if we can."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        # The build folder may hold what an older source was compiled to.
        shutil.rmtree(Path(self.build_lib, "twinbus/_native"), ignore_errors=True)
        native = self.get_finalized_command("native")
        native.build_lib = self.build_lib
        try:
            native.run()
        # mypyc reports what it cannot compile by leaving; both ways out of it
        # must end in a plain wheel, not in a failed installation.
        except (Exception, SystemExit) as error:
            print(f"warning: twinbus runs as plain Python: compiling failed: {error}")


class PackageDistribution(Distribution):
    """Tells the wheel whether it is for one platform or for any."""

    def has_ext_modules(self) -> bool:
        return missing_tool() is None


setup(
    cmdclass={"native": Native, "build_py": BuildPackage},
    distclass=PackageDistribution,
)
