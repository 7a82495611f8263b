"""Runs the vendor's tests: `python -m conformance`, or `make conformance`.

Each phase is one run of pytest in the vendor's folder, with `shim/` on its path and a
bus of its own, unless SB_CONNECTION_STRING names a server. The exit status is 0 if what
failed is what known.toml says, 1 if not, 2 if the tests could not be run.

The management tests begin by deleting every queue and topic of the server.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from conformance.known import BadList, judge, known_on, lucky_on
from conformance.own_bus import own_bus
from conformance.results import document, print_summary, result_file, write
from conformance.selections import SELECTIONS, SLOW, Phase
from conformance.setups import ONE, PLAIN, SETUPS, TRANSPORTS
from conformance.vendor import BUILD, SDK, CannotRun, tests_folder

_HERE = Path(__file__).parent
_SHIM = _HERE / "shim"
_SETTINGS = _SHIM / "livetests" / "pytest.ini"

# What the offline tests are told: nobody connects to it.
_NOBODY = {
    "SB_CONNECTION_STRING": "Endpoint=sb://localhost:5672;SharedAccessKeyName=k;"
    "SharedAccessKey=k;UseDevelopmentEmulator=true"
}
# pytest: all passed, some failed, none selected. Others are trouble of our own.
_USUAL_EXITS = (0, 1, 5)
_NOTHING_SELECTED = 5


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    # Told to stop, it still ends the processes that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        if options.selftest:
            return _selftest()
        return _run(options)
    except (BadList, CannotRun) as error:
        print(f"conformance: {error}", file=sys.stderr)
        return 2


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m conformance",
        description=f"The vendor's live tests of {SDK}. README.md has the variables.",
    )
    parser.add_argument(
        "--select", choices=SELECTIONS, default="all", help="which tests (all)"
    )
    parser.add_argument(
        "--setup", choices=SETUPS, default=ONE, help="what the bus is made of (one)"
    )
    parser.add_argument(
        "--transport",
        choices=TRANSPORTS,
        default=PLAIN,
        help="the way that messages take (plain)",
    )
    parser.add_argument("-k", dest="keyword", default="", help="as in pytest")
    parser.add_argument(
        "--quick", action="store_true", help="leave out those that sleep for a minute"
    )
    parser.add_argument(
        "--json", type=Path, help="the result file (build/conformance/result.json)"
    )
    parser.add_argument(
        "--selftest", action="store_true", help="check the shim; needs no server"
    )
    parser.add_argument(
        "extra", nargs="*", metavar="-- ARGS", help="for pytest, after --"
    )
    return parser.parse_args(arguments)


def _run(options: argparse.Namespace) -> int:
    is_own = (options.setup, options.transport) != (ONE, PLAIN)
    if is_own and "SB_CONNECTION_STRING" in os.environ:
        raise CannotRun(
            "--setup and --transport are for a bus of its own: unset "
            "SB_CONNECTION_STRING"
        )
    known = known_on(options.setup)
    file = options.json or result_file(options.setup, options.transport)
    folder = tests_folder()
    tests: dict[str, Any] = {}
    seconds = 0.0
    endpoint = ""
    for phase in SELECTIONS[options.select]:
        with _target(phase, options.setup, options.transport) as target:
            endpoint = target["SB_CONNECTION_STRING"].split(";", 1)[0]
            report = _run_phase(phase, folder, target, options)
        tests.update(report["tests"])
        seconds += report["seconds"]
    if not tests:
        raise CannotRun("no test was selected")
    is_part = options.keyword or options.quick or options.extra
    is_whole = options.select == "all" and not is_part
    about = {
        "sdk": SDK,
        "setup": options.setup,
        "transport": options.transport,
        "select": options.select,
        "keyword": options.keyword,
        "is_whole": is_whole,
        "is_quick": options.quick,
        "endpoint": endpoint,
        "seconds": seconds,
    }
    result = document(tests, known, about)
    verdict = judge(tests, known, is_whole=is_whole, lucky=lucky_on(options.setup))
    write(result, file)
    print_summary(result, verdict, file)
    return 0 if verdict.is_good else 1


@contextlib.contextmanager
def _target(phase: Phase, setup: str, transport: str) -> Iterator[Mapping[str, str]]:
    """The variables that describe the server: given, or of a bus started for it."""
    if phase.name == "offline":
        yield _NOBODY
    elif "SB_CONNECTION_STRING" in os.environ:
        yield {name: value for name, value in os.environ.items() if name[:3] == "SB_"}
    else:
        log = _log_file(phase, setup, transport)
        with own_bus(log, setup, transport) as description:
            yield description


def _log_file(phase: Phase, setup: str, transport: str) -> Path:
    parts = (setup, transport, phase.name)
    which = "-".join(part for part in parts if part not in (ONE, PLAIN))
    return BUILD / f"server-{which}.log"


def _run_phase(
    phase: Phase,
    folder: Path,
    target: Mapping[str, str],
    options: argparse.Namespace,
) -> dict[str, Any]:
    """One run of pytest; gives its report."""
    print(f"== {phase.name}", flush=True)
    with tempfile.TemporaryDirectory(prefix="conformance-") as name:
        file = Path(name) / "report.json"
        ended = subprocess.run(
            [*_command(phase, folder, options), *options.extra],
            cwd=folder,
            env={**_environment(Path(name), target), "SB_REPORT": str(file)},
        )
        if ended.returncode not in _USUAL_EXITS or not file.exists():
            raise CannotRun(
                f"pytest ended with {ended.returncode} in {phase.name}, without "
                "results to rely on; its output says why"
            )
        report: dict[str, Any] = json.loads(file.read_text())
    return report


def _command(phase: Phase, folder: Path, options: argparse.Namespace) -> list[str]:
    command = [
        *(sys.executable, "-m", "pytest", "-c", str(_SETTINGS)),
        *("--rootdir", str(folder), "-p", "livetests.plugin"),
        *("-p", "no:cacheprovider", "-p", "no:twinbus"),
        *("-n", str(phase.workers), "--max-worker-restart", "1000"),
        *("--timeout", os.environ.get("SB_TEST_TIMEOUT", "700")),
        *("--timeout-method", "signal"),
    ]
    # What the vendor excuses as a bug of his service is none for another server.
    if os.environ.get("SB_HONOUR_XFAIL") != "1":
        command.append("--runxfail")
    if keyword := _keyword(options):
        command += ["-k", keyword]
    return [*command, *phase.arguments]


def _keyword(options: argparse.Namespace) -> str:
    parts = [f"({options.keyword})"] if options.keyword else []
    if options.quick:
        parts.append(f"not ({' or '.join(SLOW)})")
    return " and ".join(parts)


def _environment(folder: Path, target: Mapping[str, str]) -> dict[str, str]:
    """That of the vendor's tests, for a server."""
    own = {**os.environ, **target, "PYTHONDONTWRITEBYTECODE": "1"}
    own["PYTHONPATH"] = str(_SHIM)
    for name in ("SERVICEBUS_RESOURCE_GROUP", "TEST_PYAMQP", "PYTEST_ADDOPTS"):
        own.pop(name, None)
    # The vendor's preparer appends it to the namespace, which is a whole address here.
    own["SERVICEBUS_ENDPOINT_SUFFIX"] = ""
    own.setdefault("SB_SKIP_FILE", str(_HERE / "skipped.toml"))
    if "SB_CA_FILE" in own:
        bundle = str(_ca_bundle(Path(own["SB_CA_FILE"]), folder))
        for name in ("SB_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"):
            own[name] = bundle
    return own


def _ca_bundle(authority: Path, folder: Path) -> Path:
    """The usual authorities and one more: tests may also look at other places."""
    import certifi

    bundle = folder / "authorities.pem"
    bundle.write_bytes(Path(certifi.where()).read_bytes() + authority.read_bytes())
    return bundle


def _selftest() -> int:
    """The vendor's preparers and the patches, against a namespace that is a fake."""
    path = os.pathsep.join([str(_SHIM), str(tests_folder())])
    command = [
        *(sys.executable, "-m", "pytest", "-c", str(_SETTINGS)),
        *("-p", "no:cacheprovider", "-p", "no:twinbus", "--import-mode=importlib"),
        str(_HERE / "selftest"),
    ]
    return subprocess.run(
        command, env={**os.environ, **_NOBODY, "PYTHONPATH": path}
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
