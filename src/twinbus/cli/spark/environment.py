"""Prepares the environment of Spark: Java, Python, and references to secrets.

Spark gets references to connection strings and never the connection strings: its
configuration and its options can be seen in logs and on web pages. Processes that it
starts on this host inherit our environment. The hosts of a cluster need files or
variables of the same names.
"""

import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from twinbus.cli import exit_codes
from twinbus.cli.connection_strings import connection_string
from twinbus.cli.failure import Failure
from twinbus.client.secret_reference import FILE
from twinbus.spark.session_settings import SESSION_SETTINGS

_QUIET: Final = {
    "spark.log.level": "ERROR",
    "spark.ui.showConsoleProgress": "false",
}
_LOCAL: Final = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
"""A Spark that runs in one process must not be reachable from other hosts."""

_MASTER: Final = re.compile(
    r"local(\[(\*|\d+)(, *\d+)?\])?|local-cluster\[.+\]|(spark|k8s)://.+|yarn"
)


def reference(given: str | None, flag: str, variable: str) -> str:
    """A reference to the connection string: `file:` with a full path, or `env:`. Raises
    Failure if there is none."""
    text = connection_string(given, flag, variable, os.environ)
    told = given or os.environ[variable]
    if told.startswith(FILE):
        return f"{FILE}{Path(told.removeprefix(FILE)).absolute()}"
    os.environ[variable] = text
    return f"env:{variable}"


def require_spark() -> None:
    """Raises Failure if PySpark, which is an extra, or Java is not installed."""
    for module in ("pyspark", "pyarrow"):
        if importlib.util.find_spec(module) is None:
            raise Failure(
                f"This command needs {module}: pip install 'twinbus[spark]'.",
                exit_codes.FAILED,
            )
    if not _has_java():
        raise Failure(
            "Spark needs Java 17 or later, and there is none: install it (on Debian: "
            "apt-get install default-jre-headless), or set JAVA_HOME.",
            exit_codes.FAILED,
        )


def _has_java() -> bool:
    home = os.environ.get("JAVA_HOME")
    if home:
        return os.access(Path(home) / "bin" / "java", os.X_OK)
    return shutil.which("java") is not None


def settings(master: str, conf: Sequence[str], archive: Path) -> dict[str, str]:
    """The configuration of Spark; an archive of this package goes to other hosts.
    Raises Failure."""
    if _MASTER.fullmatch(master) is None:
        raise Failure(
            f"--master is '{master[:60]}'; it must be local[CORES], spark://HOST:PORT, "
            "k8s://URL or yarn.",
            exit_codes.USAGE,
        )
    is_local = master.startswith("local")
    if is_local:
        # Another Python would not have this package.
        os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    found = {**_QUIET, **SESSION_SETTINGS, **(_LOCAL if is_local else {})}
    if not is_local:
        from twinbus.spark.packaging import write_archive

        found["spark.submit.pyFiles"] = str(write_archive(archive))
    for item in conf:
        name, is_pair, value = item.partition("=")
        if not is_pair or not name.startswith("spark."):
            raise Failure(
                f"--conf is '{item[:60]}'; it must be spark.NAME=VALUE.",
                exit_codes.USAGE,
            )
        found[name.strip()] = value.strip()
    return found
