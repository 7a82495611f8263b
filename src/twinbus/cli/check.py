"""Checks the files of a stopped bus for damage, and says what to do next.

Progress goes to stderr, the findings to stdout, as text or as one JSON object.
"""

import json
import sys
from pathlib import Path
from typing import Final

import typer

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.config.config import Config
from twinbus.store.base import StoreError, StoreInUse
from twinbus.store.sqlite import SqliteStore
from twinbus.store.sqlite_audit import SqliteAudit, as_json
from twinbus.store.urls import open_store_url

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
    audit = SqliteAudit(_store_of(config), config.data / "catalog.sqlite3", _progress)
    done: list[str] = []
    try:
        audit.run()
        if accept_loss and audit.can_accept():
            done = audit.accept()
    except StoreInUse as error:
        raise Failure(str(error), exit_codes.IN_USE) from None
    except StoreError as error:
        raise Failure(str(error), exit_codes.UNREADABLE) from None
    _print(audit, done, is_json=is_json)
    if not audit.is_whole() and not done:
        raise typer.Exit(exit_codes.DAMAGED)


def _store_of(config: Config) -> Path:
    try:
        store = open_store_url(config.store) if config.store else None
    except StoreError as error:
        raise Failure(str(error), exit_codes.USAGE) from None
    if store is None:
        return config.data / "messages.sqlite3"
    if not isinstance(store, SqliteStore):
        raise Failure("Only a SQLite store can be checked.", exit_codes.USAGE)
    return store.path


def _progress(step: str) -> None:
    print(f"checking {step}", file=sys.stderr, flush=True)


def _next_step(audit: SqliteAudit, done: list[str]) -> str:
    if audit.is_whole():
        return "No damage was found."
    if done:
        return "Start the bus: it goes on with what is left."
    return _ACCEPT if audit.can_accept() else _RESTORE


def _print(audit: SqliteAudit, done: list[str], *, is_json: bool) -> None:
    found, confirmed = audit.found, audit.confirmed
    if is_json:
        report = {
            "whole": audit.is_whole(),
            "commit": None if found is None else found.batch,
            "confirmed": None if confirmed is None else confirmed.batch,
            "messages": audit.message_count,
            "findings": [as_json(finding) for finding in audit.findings],
            "done": done,
            "next": _next_step(audit, done),
        }
        print(json.dumps(report, indent=2))
        return
    if found is not None:
        print(f"{audit.message_count} messages, as of commit {found.batch}")
    for finding in audit.findings:
        kind = "damage" if finding.is_damage else "note"
        print(f"{kind}: {finding.line()}")
    for line in done:
        print(f"done: {line}")
    print(_next_step(audit, done))
