"""Checks the stores of a bus for damage, and says what to do next.

Progress goes to stderr, the findings to stdout, as text or as one JSON object.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import typer

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.config.config import Config, ConfigError
from twinbus.process.data_folder import DataFolder
from twinbus.store.audit_findings import as_json
from twinbus.store.base import StoreError, StoreInUse
from twinbus.store.memory import MemoryStore
from twinbus.store.sqlite import SqliteStore
from twinbus.store.sqlite_audit import SqliteAudit
from twinbus.store.sqlite_catalog import SqliteCatalog
from twinbus.store.urls import open_store_urls

if TYPE_CHECKING:
    from twinbus.store.postgres_audit import PostgresAudit

Audit: TypeAlias = "SqliteAudit | PostgresAudit"
_Check: TypeAlias = Callable[..., "tuple[Audit, list[str]]"]

_ACCEPT: Final = (
    "Restore a backup of the data folder. To go on without what is gone, run this "
    "again with --accept-loss, then start the bus."
)
_RESTORE: Final = (
    "Stop using the files, keep a copy of them, and restore a backup of the data "
    "folder. Without one, the command .recover of the program sqlite3 saves what can "
    "still be read."
)


_RESTORE_DATABASE: Final = (
    "Stop the bus and restore a backup of the database. If the server's disk may be "
    "at fault, run pg_amcheck first."
)


def run_check(config: Config, *, accept_loss: bool, is_json: bool) -> None:
    """Raises Failure, or typer.Exit if something is wrong."""
    checks = [check(config, accept_loss=accept_loss) for check in _checks_of(config)]
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


def _checks_of(config: Config) -> list[_Check]:
    """How each store is checked. Raises Failure."""
    if not config.store:
        return [partial(_checked_file, config.data / "messages.sqlite3")]
    try:
        stores = open_store_urls(config.store)
    except StoreError as error:
        raise Failure(str(error), exit_codes.USAGE) from None
    if any(isinstance(store, MemoryStore) for store in stores):
        raise Failure("A store in memory cannot be checked.", exit_codes.USAGE)
    return [
        partial(_checked_file, store.path)
        if isinstance(store, SqliteStore)
        else partial(_checked_schema, url)
        for url, store in zip(config.store, stores, strict=True)
    ]


@contextmanager
def _telling() -> Iterator[None]:
    """Raises Failure."""
    try:
        yield
    except StoreInUse as error:
        raise Failure(str(error), exit_codes.IN_USE) from None
    except StoreError as error:
        raise Failure(str(error), exit_codes.UNREADABLE) from None


def _checked_file(
    store: Path, config: Config, *, accept_loss: bool
) -> tuple[Audit, list[str]]:
    """A look at one store, and what was done about what it found."""
    if not store.exists():
        raise Failure(
            f"There is no store {store}. Name the folder of the bus with --data, or "
            "its stores with --store.",
            exit_codes.UNREADABLE,
        )
    catalog = _catalog_of(config)
    audit = SqliteAudit(store, None if catalog is None else catalog.path, _progress)
    done: list[str] = []
    with _telling():
        audit.run()
        if accept_loss and audit.can_accept():
            done = audit.accept()
    return audit, done


def _checked_schema(
    url: str, config: Config, *, accept_loss: bool
) -> tuple[Audit, list[str]]:
    """The same in a database, which nothing is done about."""
    from twinbus.store.postgres import DEFAULT_SCHEMA
    from twinbus.store.postgres_audit import PostgresAudit
    from twinbus.store.postgres_url import parse_postgres_url

    with _telling():
        catalog = _catalog_of(config)
        has_catalog = catalog is not None and catalog.exists()
        entities = catalog.survey()[0] if catalog and has_catalog else []
        parsed = parse_postgres_url(url, DEFAULT_SCHEMA)
        audit = PostgresAudit(parsed, entities, _progress)
        asyncio.run(audit.run())
    return audit, []


def _catalog_of(config: Config) -> SqliteCatalog | None:
    """None if it is in a database, which looks after it. Raises Failure."""
    try:
        catalog = DataFolder(config).kept_catalog()
    except ConfigError as error:
        raise Failure(str(error), exit_codes.USAGE) from None
    return catalog if isinstance(catalog, SqliteCatalog) else None


def _progress(step: str) -> None:
    print(f"checking {step}", file=sys.stderr, flush=True)


def _next_step(audit: Audit, done: list[str]) -> str:
    if audit.is_whole():
        return "No damage was found."
    if done:
        return "Start the bus: it goes on with what is left."
    if not isinstance(audit, SqliteAudit):
        return _RESTORE_DATABASE
    return _ACCEPT if audit.can_accept() else _RESTORE


def _report(audit: Audit, done: list[str]) -> dict[str, Any]:
    """For programs."""
    return {
        "whole": audit.is_whole(),
        "commit": _commit(audit),
        "confirmed": _confirmed(audit),
        "messages": audit.message_count,
        "findings": [as_json(finding) for finding in audit.findings],
        "done": done,
        "next": _next_step(audit, done),
    }


def _commit(audit: Audit) -> int | None:
    """The last one that is there; None if the store is not."""
    if not isinstance(audit, SqliteAudit):
        return audit.batch
    return None if audit.found is None else audit.found.batch


def _confirmed(audit: Audit) -> int | None:
    """The last one that was noted beside the store, if it was."""
    if not isinstance(audit, SqliteAudit) or audit.confirmed is None:
        return None
    return audit.confirmed.batch


def _print(audit: Audit, done: list[str]) -> None:
    commit = _commit(audit)
    if commit is not None:
        print(f"{audit.message_count} messages, as of commit {commit}")
    for finding in audit.findings:
        kind = "damage" if finding.is_damage else "note"
        print(f"{kind}: {finding.line()}")
    for line in done:
        print(f"done: {line}")
    print(_next_step(audit, done))
