"""Which tests are left out because the server at hand lacks what they are about.

The list is a TOML file, skipped.toml, which explains itself.
"""

import fnmatch
import os
import tomllib
from pathlib import Path

from .target import target


def reason_to_skip(name: str) -> str | None:
    """Why a test, named module::test[parameters], is left out; None: it is not."""
    for test in _list():
        if fnmatch.fnmatchcase(name, test["name"]) and _holds(test["condition"]):
            return f"skipped.toml: {test['reason']}"
    return None


def _list() -> list[dict[str, str]]:
    file = os.environ.get("SB_SKIP_FILE")
    if not file:
        return []
    tests: list[dict[str, str]] = tomllib.loads(Path(file).read_text())["test"]
    return tests


def _holds(condition: str) -> bool:
    server = target()
    return {
        "always": True,
        "no-tls": not server.has_tls,
        "no-ws": server.ws is None,
        "no-wss": server.ws is None or server.ws.scheme != "wss",
    }[condition]
