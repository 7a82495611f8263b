"""The vendor's source distribution, which has the tests: fetched once, by pip.

It is kept under build/, which is not under version control. SB_SDIST_DIR names an
unpacked one to use instead, where there is no package index to ask.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VERSION = "7.15.0"
SDK = f"azure-servicebus {VERSION}"
BUILD = Path(__file__).parents[1] / "build" / "conformance"

_FETCH = (
    *("-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
    *("--no-deps", "--no-binary", "azure-servicebus"),
)


class CannotRun(Exception):
    """The tests cannot be run at all; the text says why and what to do."""


def tests_folder() -> Path:
    """The folder with the vendor's tests, fetched if it is not there yet."""
    given = os.environ.get("SB_SDIST_DIR")
    folder = Path(given) if given else BUILD / f"azure_servicebus-{VERSION}"
    if not given and not (folder / "tests").is_dir():
        _unpack(_fetched_archive())
    if not (folder / "tests").is_dir():
        raise CannotRun(f"{folder} has no folder `tests`: it is not {SDK} as published")
    return folder / "tests"


def _fetched_archive() -> Path:
    BUILD.mkdir(parents=True, exist_ok=True)
    wanted = f"azure-servicebus=={VERSION}"
    fetch = [sys.executable, *_FETCH, "--dest", str(BUILD), wanted]
    if subprocess.run(fetch).returncode != 0:
        raise CannotRun(
            f"pip could not fetch the source distribution of {SDK}: connect to a "
            "package index, or unpack it and set SB_SDIST_DIR"
        )
    return next(BUILD.glob(f"azure*servicebus-{VERSION}.tar.gz"))


def _unpack(archive: Path) -> None:
    # Moved into place when it is whole: an interrupted run must not leave half of it.
    with tempfile.TemporaryDirectory(dir=BUILD) as beside:
        with tarfile.open(archive) as packed:
            packed.extractall(beside, filter="data")
        for folder in Path(beside).iterdir():
            folder.rename(BUILD / folder.name)
