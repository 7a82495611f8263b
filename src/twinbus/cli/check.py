"""Checks the files of a stopped bus for damage, and says what to do next.

Progress goes to stderr, the findings to stdout, as text or as one JSON object.
"""

import json
import sys
from pathlib import Path
from typing import Any, Final

import typer

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.config.config import Config
from twinbus.store.base import StoreError, StoreInUse
from twinbus.store.sqlite import SqliteStore
from twinbus.store.sqlite_audit import SqliteAudit, as_json
from twinbus.store.urls import open_store_urls

_ACCEPT: Final = (
    "Restore a backup of the data folder. To go on without what is gone, run this "
    "again with --accept-loss, then start the bus."
)
_RESTORE: Final = (
    "Stop using the files, keep a copy of them, and restore a backup of the data "
    "folder. Without one, the command .recover of the program sqlite3 saves what can "
    "still be read."
)


def run_check(config: Config, *, accept_loss: bool, is_json: bool) -> None:
    """Raises Failure, or typer.Exit if something is wrong."""
    checks = [
        _checked(store, config, accept_loss=accept_loss) for store in _stores_of(config)
    ]
    if is_json:
        reports = [_report(audit, done) for audit, done in checks]
        several = {"whole": all(one["whole"] for one in reports), "stores": reports}
        print(json.dumps(reports[0] if len(reports) == 1 else several, indent=2))
    else:
        for audit, done in checks:
            if len(checks) > 1:
                print(f"{audit.store}:")
            _print(audit, done)
    if any(not audit.is_whole() and not done for audit, done in checks):
        raise typer.Exit(exit_codes.DAMAGED)


def _checked(
    store: Path, config: Config, *, accept_loss: bool
) -> tuple[SqliteAudit, list[str]]:
    """A look at one store, and what was done about what it found."""
    audit = SqliteAudit(store, config.data / "catalog.sqlite3", _progress)
    done: list[str] = []
    try:
        audit.run()
        if accept_loss and audit.can_accept():
            done = audit.accept()
    except StoreInUse as error:
        raise Failure(str(error), exit_codes.IN_USE) from None
    except StoreError as error:
        raise Failure(str(error), exit_codes.UNREADABLE) from None
    return audit, done


def _stores_of(config: Config) -> list[Path]:
    if not config.store:
        return [config.data / "messages.sqlite3"]
    try:
        stores = open_store_urls(config.store)
    except StoreError as error:
        raise Failure(str(error), exit_codes.USAGE) from None
    paths = [store.path for store in stores if isinstance(store, SqliteStore)]
    if len(paths) < len(stores):
        raise Failure("Only a SQLite store can be checked.", exit_codes.USAGE)
    return paths


def _progress(step: str) -> None:
    print(f"checking {step}", file=sys.stderr, flush=True)


def _next_step(audit: SqliteAudit, done: list[str]) -> str:
    if audit.is_whole():
        return "No damage was found."
    if done:
        return "Start the bus: it goes on with what is left."
    return _ACCEPT if audit.can_accept() else _RESTORE


def _report(audit: SqliteAudit, done: list[str]) -> dict[str, Any]:
    """For programs."""
    found, confirmed = audit.found, audit.confirmed
    return {
        "whole": audit.is_whole(),
        "commit": None if found is None else found.batch,
        "confirmed": None if confirmed is None else confirmed.batch,
        "messages": audit.message_count,
        "findings": [as_json(finding) for finding in audit.findings],
        "done": done,
        "next": _next_step(audit, done),
    }


def _print(audit: SqliteAudit, done: list[str]) -> None:
    if audit.found is not None:
        print(f"{audit.message_count} messages, as of commit {audit.found.batch}")
    for finding in audit.findings:
        kind = "damage" if finding.is_damage else "note"
        print(f"{kind}: {finding.line()}")
    for line in done:
        print(f"done: {line}")
    print(_next_step(audit, done))
