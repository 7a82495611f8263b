"""One line about the machine a result comes from, and versions of what ran."""

import os
import platform
import sqlite3
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bench.prerequisites import find_rabbitmq


def describe_machine() -> str:
    """Processor, cores, memory and kernel, as one line."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{_processor()}, {os.cpu_count()} cores, {memory:.0f} GiB memory, "
        f"Linux {platform.release().split('-')[0]}"
    )


def describe_versions() -> str:
    """The programs measured and what they stand on, as one line."""
    rabbitmq = find_rabbitmq()
    names = [
        f"twinbus {_installed('twinbus')}",
        f"Python {platform.python_version()}",
        f"SQLite {sqlite3.sqlite_version}",
        f"uvloop {_installed('uvloop')}",
    ]
    if rabbitmq is not None:
        # Its folder is called rabbitmq_server-VERSION.
        names.append(f"RabbitMQ {rabbitmq.parent.parent.name.rpartition('-')[2]}")
    return ", ".join(names)


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(from source)"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
