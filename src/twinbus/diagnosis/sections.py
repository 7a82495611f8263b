"""The parts of a diagnosis: what the process is, has and did.

There is no content of messages in them, and no key: only names, numbers and places.
"""

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

from twinbus import __version__, compilation
from twinbus.broker.operation_log import OperationLog
from twinbus.broker.operation_names import NAMES
from twinbus.broker.operation_record import decode_operations
from twinbus.config.settings import Settings
from twinbus.diagnosis.bundle import Parts
from twinbus.diagnosis.self_check import has_work
from twinbus.diagnosis.stacks import task_stacks, thread_stacks
from twinbus.limits import DIAGNOSIS_FRAGMENTS
from twinbus.owner.commit_meter import MeasuredCommit
from twinbus.owner.store_owner import StoreOwner
from twinbus.throttling.gauges import memory_bytes, memory_limit_bytes

_PASSWORD: Final = re.compile(r"//[^/@\s]*@|(?i:password)=[^\s&;]*")
"""In the address of a database server: name and password."""


def parts_of(
    settings: Settings,
    owners: Sequence[StoreOwner],
    connections: Callable[[], Iterable[str]],
    loop: asyncio.AbstractEventLoop,
    monotonic: int,
) -> Parts:
    """By the names of their files. They are made when they are written."""
    return {
        "stacks.txt": thread_stacks,
        "tasks.txt": lambda: task_stacks(loop),
        "process.json": lambda: _json(_process()),
        "settings.json": lambda: _json(_written_settings(settings)),
        "stores.json": lambda: _json([_store(one, monotonic) for one in owners]),
        "operations.json": lambda: _json([_operations(one) for one in owners]),
        "connections.txt": lambda: "".join(f"{one}\n" for one in connections()),
    }


def _json(content: object) -> str:
    return json.dumps(content, indent=2, default=str) + "\n"


def _process() -> Mapping[str, Any]:
    return {
        "version": __version__,
        "form": compilation.describe(),
        "memory_bytes": memory_bytes(),
        "memory_limit_bytes": memory_limit_bytes(),
    }


def _written_settings(settings: Settings) -> Mapping[str, str]:
    """Without secrets: these are left out of `repr`, too."""
    return {
        each.name: _PASSWORD.sub("//***@", str(getattr(settings, each.name)))
        for each in fields(Settings)
        if each.repr
    }


def _store(owner: StoreOwner, monotonic: int) -> Mapping[str, Any]:
    meter = owner.health.meter
    fragments = list(owner.table.loaded())
    return {
        "location": _PASSWORD.sub("//***@", owner.store.location),
        "uuid": owner.store_uuid.hex(),
        "state": owner.state.value,
        "turns": owner.health.turn_count,
        "last_commit": owner.last_batch,
        "has_work": has_work(owner),
        "is_committing": owner.is_committing,
        "commit_under_way_ms": None if meter is None else meter.under_way_ms(monotonic),
        "commit_ms": None if meter is None else meter.commit_ms(monotonic),
        "is_full": owner.is_full,
        "refuses_until": owner.refuses_until,
        "refusal": owner.refusal if owner.refuses_until else None,
        "pending_bytes": owner.changes.pending_bytes,
        "loaded_fragments": len(fragments),
        "fragments": [
            {
                "path": each.settings.path,
                "number": each.number,
                "index": each.index,
                "sub_queue": each.sub_queue,
                "next_sequence": each.next_sequence,
                "active": each.active_count,
                "deferred": each.deferred_count,
                "scheduled": each.scheduled_count,
                "size_bytes": each.size_bytes,
                "locks": len(each.locks),
                "ready": each.window.ready_count(),
            }
            for each in fragments[:DIAGNOSIS_FRAGMENTS]
        ],
    }


def _operations(owner: StoreOwner) -> Mapping[str, Any]:
    recent = [] if owner.health.meter is None else list(owner.health.meter.recent)
    return {
        "store": _PASSWORD.sub("//***@", owner.store.location),
        "commits": [_commit(each) for each in recent],
    }


def _commit(commit: MeasuredCommit) -> Mapping[str, Any]:
    shown: dict[str, Any] = {
        "batch": commit.batch,
        "duration_ms": commit.duration_ms,
        "is_done": commit.is_done,
    }
    return shown if commit.log is None else {**shown, **_logged(commit.log)}


def _logged(log: OperationLog) -> Mapping[str, Any]:
    record = decode_operations(log.encode(0))
    return {
        "actors": record.actors,
        "operations": [
            {
                "operation": NAMES.get(run.operation, run.operation),
                "actor": run.actor,
                "first_row_id": run.first_row_id,
                "messages": run.message_count,
                "size_bytes": run.size_bytes,
            }
            for run in record.runs
        ],
    }
