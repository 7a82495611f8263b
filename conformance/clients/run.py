"""Runs clients: `python -m conformance.clients NAME...`, or all of clients.toml.

Each client is prepared once, then run over plain TCP, TLS and WebSockets, each time
with a fresh bus in a network of its own (alone.py). Results of earlier runs of other
clients and transports are kept in the result file, from which `make clients-page` makes
the page. The exit status is 0 if nothing failed, 1 if something did, 2 if a client
could not be run.
"""

import argparse
import fcntl
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from conformance.clients.alone import ROOT, command
from conformance.clients.cases import CASES, FEW
from conformance.clients.declared import TRANSPORTS, Client, chosen
from conformance.clients.preparation import prepared
from conformance.vendor import BUILD, CannotRun

RESULT = BUILD / "clients.json"
_MARKS: Mapping[object, str] = {True: "passed", False: "FAILED", None: "-"}
_NO_CALL = {"ok": None, "text": ""}
_NEVER_TOLD = {"ok": False, "text": "the program ended without a word about it"}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m conformance.clients",
        description="Real clients against a bus; README.md says what they do.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="which (all)")
    parser.add_argument("--json", type=Path, default=RESULT, help="the result file")
    parser.add_argument(
        "--transport",
        action="append",
        choices=TRANSPORTS,
        help="only over this one; may be repeated",
    )
    parser.add_argument("--list", action="store_true", help="show the names")
    options = parser.parse_args(arguments)
    try:
        clients = chosen(options.names)
        if options.list:
            print("\n".join(client.name for client in clients))
            return 0
        return _run(clients, options.transport or TRANSPORTS, options.json)
    except CannotRun as error:
        print(f"conformance: {error}", file=sys.stderr)
        return 2


def _run(clients: list[Client], chosen_transports: Sequence[str], file: Path) -> int:
    good = True
    for client in clients:
        transports = {
            transport: _judged(_run_one(client, transport))
            for transport in client.transports
            if transport in chosen_transports
        }
        _keep(client, transports, file)
        _print(client, transports)
        good = good and all(
            case["ok"] is not False
            for cases in transports.values()
            for case in cases.values()
        )
    return 0 if good else 1


def _keep(client: Client, transports: Mapping[str, Any], file: Path) -> None:
    """Beside what is in the result file by now: another run may write to it, too."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.with_suffix(".lock").open("w") as lock:
        # It ends when the file is closed.
        fcntl.flock(lock, fcntl.LOCK_EX)
        results = json.loads(file.read_text()) if file.exists() else {}
        every = {**results.get(client.name, {}).get("transports", {}), **transports}
        results[client.name] = {
            "title": client.title,
            "transports": {name: every[name] for name in TRANSPORTS if name in every},
        }
        file.write_text(json.dumps(results, indent=1) + "\n")


def _run_one(client: Client, transport: str) -> Mapping[str, Any]:
    folder = prepared(client)
    result = folder / f"{transport}.json"
    result.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="conformance-") as elsewhere:
        ended = subprocess.run(
            command(client, transport, folder, result),
            cwd=elsewhere,
            env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"},
        )
    if ended.returncode != 0 or not result.exists():
        raise CannotRun(
            f"{client.name} over {transport} could not be run; what was said is "
            f"above, and in {result.with_suffix('.log')}"
        )
    told: Mapping[str, Any] = json.loads(result.read_text())
    return told


def _judged(told: Mapping[str, Any]) -> dict[str, Any]:
    """Every case of the lists, and no other."""
    if surplus := sorted(set(told["cases"]) - {*CASES, *FEW}):
        raise CannotRun(f"cases.py does not know {', '.join(surplus)}")
    every = {name: told["cases"].get(name, _NEVER_TOLD) for name in CASES}
    return every | {name: told["cases"].get(name, _NO_CALL) for name in FEW}


def _print(client: Client, transports: Mapping[str, Mapping[str, Any]]) -> None:
    print(f"\n{client.title}")
    print(f"  {'':20}" + "".join(f"{name:10}" for name in transports))
    for case in (*CASES, *FEW):
        told = [cases[case] for cases in transports.values()]
        marks = "".join(f"{_MARKS[one['ok']]:10}" for one in told)
        texts = "; ".join(dict.fromkeys(one["text"] for one in told if one["text"]))
        print(f"  {case:20}{marks}{texts}".rstrip())
    sys.stdout.flush()
