"""Is a measure too high? Pure: the reason for clients, or None.

A measure that was too high must fall a tenth below its threshold before it is well
again. Otherwise clients would be let in and refused in turns.
"""

from typing import Final

from twinbus.throttling.readings import ProcessReading, StoreReading
from twinbus.throttling.thresholds import Thresholds

_MEGABYTE: Final = 1024 * 1024

WAIT: Final = "Wait 10 seconds, then try again."
"""What Service Bus asks callers to do, each part of an application for itself."""


def process_reason(
    reading: ProcessReading, thresholds: Thresholds, was_busy: bool
) -> str | None:
    """Why the whole process refuses requests."""
    limit = thresholds.cpu_percent
    used = reading.cpu_percent
    if used is not None and _is_above(used, limit, was_busy):
        return (
            f"The server has used {used:.0f} % of a processor for some seconds; the "
            f"threshold (throttle_cpu_percent) is {limit} %. {WAIT}"
        )
    held, allowed = reading.memory_bytes, reading.memory_limit_bytes
    if held is None or not allowed:
        return None
    percent = 100 * held / allowed
    limit = thresholds.memory_percent
    if _is_above(percent, limit, was_busy):
        return (
            f"The server uses {held // _MEGABYTE} MB of memory, {percent:.0f} % of the "
            f"{allowed // _MEGABYTE} MB that it may have; the threshold "
            f"(throttle_memory_percent) is {limit} %. {WAIT}"
        )
    return None


def store_reason(
    reading: StoreReading, thresholds: Thresholds, was_busy: bool
) -> str | None:
    """Why one store refuses messages."""
    limit = thresholds.commit_ms
    if _is_above(reading.commit_ms, limit, was_busy):
        return (
            f"A commit of the message store takes {reading.commit_ms} ms; the "
            f"threshold (throttle_commit_ms) is {limit} ms. {WAIT}"
        )
    least, free = thresholds.free_megabytes * _MEGABYTE, reading.free_bytes
    if free is None or not least:
        return None
    if free < (least * 11 // 10 if was_busy else least):
        return (
            f"The disk of the message store has {free // _MEGABYTE} MB of free space; "
            f"the threshold (throttle_free_megabytes) is {thresholds.free_megabytes} "
            f"MB. {WAIT}"
        )
    return None


def rate_reason(namespace: str, thresholds: Thresholds, owed: int) -> str:
    """Why a namespace that has used up its credits refuses requests."""
    return (
        f"The namespace '{namespace}' has used up its operations, and {owed} more: the "
        f"threshold (throttle_operations) is {thresholds.operations_per_second} per "
        f"second, and {thresholds.burst} at once. {WAIT}"
    )


def _is_above(value: float, threshold: int, was_busy: bool) -> bool:
    if threshold == 0:
        return False
    return value > (0.9 * threshold if was_busy else threshold)
