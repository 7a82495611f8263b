"""Backs up a bus, and restores one. Progress goes to stderr, the result to stdout."""

import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, final

from twinbus.backup.making import make_backup
from twinbus.backup.manifest import BackupDamaged, BackupManifest
from twinbus.backup.restoring import PlaceTaken, RestorePlan, carry_out, plan_restore
from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.clock import SystemClock
from twinbus.config.config import Config, ConfigError
from twinbus.instants import instant_of
from twinbus.store.base import StoreError, StoreInUse
from twinbus.store.urls import without_password

_PAUSE_MS: Final = 1_000


@final
class _Progress:
    """A line for each step, and at most one in a second for a share of one."""

    def __init__(self) -> None:
        self._step = ""
        self._told = 0
        self._clock = SystemClock()

    def __call__(self, text: str) -> None:
        step = text.partition(": ")[0]
        now = self._clock.monotonic()
        if step != self._step or now - self._told >= _PAUSE_MS:
            print(text, file=sys.stderr, flush=True)
            self._step, self._told = step, now


def run_backup(config: Config, to: Path, *, is_json: bool) -> None:
    """Raises Failure."""
    with _failures():
        manifest = asyncio.run(make_backup(config, to, _Progress()))
    if is_json:
        print(json.dumps(_report(manifest) | {"folder": str(to)}, indent=2))
        return
    print(f"{_summary(manifest)} are in {to}, as of {_instant(manifest.moment_at)}.")
    print(f"Commits waited for {manifest.held_ms:.1f} ms.")


def run_restore(
    config: Config, backup: Path, *, is_dry_run: bool, is_json: bool
) -> None:
    """Raises Failure."""
    progress = _Progress()
    with _failures():
        plan = asyncio.run(plan_restore(backup, config, progress))
        if not is_dry_run:
            asyncio.run(carry_out(plan, progress))
    start = _start_line(config)
    if is_json:
        report = _report(plan.manifest) | {
            "restored": not is_dry_run,
            "places": plan.places,
            "start": start,
        }
        print(json.dumps(report, indent=2))
        return
    for line in _lines(plan, start, is_dry_run=is_dry_run):
        print(line)


def _lines(plan: RestorePlan, start: str, *, is_dry_run: bool) -> Iterator[str]:
    when = _instant(plan.manifest.moment_at)
    what = _summary(plan.manifest)
    if is_dry_run:
        yield f"The backup of {when} is whole: {what}. All places are free."
        return
    yield f"{what} were restored, as of {when}:"
    for place in plan.places:
        yield f"  {place}"
    yield f"Start the bus: {start}"


def _summary(manifest: BackupManifest) -> str:
    return (
        f"{manifest.message_count} messages of {manifest.entity_count} entities in "
        f"{len(manifest.stores)} store{'s' if len(manifest.stores) != 1 else ''}"
    )


def _report(manifest: BackupManifest) -> dict[str, Any]:
    """For programs."""
    return {
        "backup_id": manifest.backup_id,
        "moment": _instant(manifest.moment_at),
        "held_ms": manifest.held_ms,
        "messages": manifest.message_count,
        "entities": manifest.entity_count,
        "bytes": manifest.size_bytes,
        "stores": [
            {
                key: value
                for key, value in asdict(store).items()
                if key not in ("details", "place")
            }
            for store in manifest.stores
        ],
    }


def _start_line(config: Config) -> str:
    words = ["twinbus serve", f"--data {config.data}"]
    words += [f"--store {without_password(url)}" for url in config.store]
    if config.catalog:
        words.append(f"--catalog {without_password(config.catalog)}")
    return " ".join(words)


def _instant(at: int) -> str:
    return instant_of(at).isoformat(timespec="milliseconds")


@contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        raise Failure(str(error), exit_codes.USAGE) from None
    except PlaceTaken as error:
        raise Failure(str(error), exit_codes.EXISTS) from None
    except BackupDamaged as error:
        raise Failure(str(error), exit_codes.DAMAGED) from None
    except StoreInUse as error:
        raise Failure(str(error), exit_codes.IN_USE) from None
    except StoreError as error:
        raise Failure(str(error), exit_codes.UNREADABLE) from None
    except OSError as error:
        raise Failure(
            f"{error.filename or 'A file'}: {error.strerror}.", exit_codes.FAILED
        ) from None
