"""`python -m fuzz`: Schemathesis makes requests after the page of HTTP messaging.

Requests that the page allows and requests that it does not allow: each must get an
answer that the page has, and never one of the kind 5xx. Schemathesis brings a plugin
for pytest, so it has an environment of its own, which is made if it is not there.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import Any

from crash.server_process import ServerProcess

from twinbus.auth import sas
from twinbus.config.config import ROOT_KEY_NAME

_ROOT = Path(__file__).parents[2]
_PAGE = _ROOT / "docs" / "reference" / "http-messaging.openapi.json"
_TOOLS = _ROOT / "build" / "fuzz"
_PACKAGE = "schemathesis==4.32.5"

_CONFIG = """
[queues.target]
lock_duration = "PT5M"
[queues.sessions]
requires_session = true
[topics.news.subscriptions.all]
"""
_ENTITIES = ["target", "sessions", "news", "news/subscriptions/all", "nobody"]

_CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)
_TOKEN_SECONDS = 24 * 3600


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--examples", type=int, default=200, help="of each request")
    parser.add_argument("--seed", type=int, help="of a run that shall be repeated")
    return parser.parse_args()


def _schemathesis() -> Path:
    """The command, installed if need be."""
    command = _TOOLS / "bin" / "schemathesis"
    if not command.exists():
        venv.create(_TOOLS, with_pip=True)
        pip = (str(_TOOLS / "bin" / "python"), "-m", "pip", "--quiet", "install")
        subprocess.run([*pip, _PACKAGE], check=True)
    return command


def _description() -> dict[str, Any]:
    """The page, with entities that are there, and receives that do not wait."""
    page: dict[str, Any] = json.loads(_PAGE.read_text())
    parameters = page["components"]["parameters"]
    parameters["entity"]["schema"] = {"enum": _ENTITIES}
    parameters["timeout"] |= {"required": True, "schema": {"enum": [0]}}
    return page


def _run(server: ServerProcess, folder: Path, given: argparse.Namespace) -> int:
    file = folder / "page.json"
    file.write_text(json.dumps(_description()))
    bus = f"http://localhost:{server.port}"
    token = sas.make(
        resource=bus,
        key_name=ROOT_KEY_NAME,
        key=server.key,
        expires_at=int((time.time() + _TOKEN_SECONDS) * 1000),
    )
    common = [
        *(str(_schemathesis()), "run", str(file), "--url", bus),
        *("--header", f"Authorization: {token}", "--request-timeout", "30"),
        *("--checks", ",".join(_CHECKS), "--phases", "coverage,fuzzing"),
        *("--max-examples", str(given.examples), "--warnings", "off"),
        *(() if given.seed is None else ("--seed", str(given.seed))),
    ]
    runs = (
        ("--mode", "all", "--exclude-path-regex", "head"),
        # A receive that does not say how long it waits waits for a minute.
        ("--mode", "positive", "--include-path-regex", "head"),
    )
    return max(subprocess.run([*common, *run], check=False).returncode for run in runs)


def main() -> int:
    given = _arguments()
    with (
        tempfile.TemporaryDirectory(prefix="fuzz-") as name,
        ServerProcess(Path(name), _CONFIG) as server,
    ):
        server.start_now()
        code = _run(server, Path(name), given)
        if "Traceback" in server.errors:
            print(server.errors)
            return 1
    return code


if __name__ == "__main__":
    sys.exit(main())
