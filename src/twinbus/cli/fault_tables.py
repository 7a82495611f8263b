"""Faults as a table for people."""

from collections.abc import Iterable, Mapping
from typing import Any

from twinbus.cli.tables import print_table
from twinbus.durations import readable_duration


def print_faults(faults: Iterable[Mapping[str, Any]]) -> None:
    print_table(
        ("number", "effect", "operations", "where", "details", "left", "hits"),
        [
            (
                *(str(fault["number"]), fault["effect"]),
                ", ".join(fault["operations"]) or "store",
                *(_where(fault), _details(fault), _left(fault["left_ms"])),
                # A server of an older version does not count them.
                str(fault.get("hits", "")),
            )
            for fault in faults
        ],
        right=(0, 6),
        name=3,
    )


def _where(fault: Mapping[str, Any]) -> str:
    parts = (
        f"{name} {fault[name]}"
        for name in ("entity", "store", "namespace")
        if fault[name] != "*"
    )
    return ", ".join(parts) or "everywhere"


def _details(fault: Mapping[str, Any]) -> str:
    parts = []
    if fault["delay_ms"]:
        parts.append(f"delay {readable_duration(fault['delay_ms'])}")
    if fault["rate"]:
        parts.append(f"{fault['rate']} messages/s")
    if fault["probability"] < 1:
        parts.append(f"probability {fault['probability']:g}")
    if fault["seed"] is not None:
        parts.append(f"seed {fault['seed']}")
    return ", ".join(parts)


def _left(left_ms: int | None) -> str:
    return "until cleared" if left_ms is None else readable_duration(max(left_ms, 1))
