"""Does a fault apply to this operation now? Pure: told the time and a random number."""

from dataclasses import dataclass
from fnmatch import fnmatchcase

from twinbus.faults.fault import (
    EVERYTHING,
    STORE_EFFECTS,
    Effect,
    InjectedFault,
    Operation,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Occasion:
    """An operation of a client."""

    operation: Operation
    # Empty for an operation on the whole namespace, or for a connection.
    entity: str
    namespace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOccasion:
    """An operation on a store."""

    store: str
    namespace: str
    # A commit can fail or be slow; everything can find the store gone.
    is_commit: bool
    # Paths of the entities that the commit changes.
    entities: tuple[str, ...] = ()


def applies(
    fault: InjectedFault, occasion: Occasion | StoreOccasion, now: int, drawn: float
) -> bool:
    """`drawn` is a random number from 0 up to 1."""
    if fault.has_ended(now) or not matches(fault.namespace, occasion.namespace):
        return False
    if isinstance(occasion, Occasion):
        is_meant = _is_meant(fault, occasion)
    else:
        is_meant = _is_store_meant(fault, occasion)
    return is_meant and drawn < fault.probability


def _is_meant(fault: InjectedFault, occasion: Occasion) -> bool:
    return (
        fault.effect not in STORE_EFFECTS
        and occasion.operation in fault.operations
        and matches(fault.entity, occasion.entity)
    )


def _is_store_meant(fault: InjectedFault, occasion: StoreOccasion) -> bool:
    if fault.effect not in STORE_EFFECTS or not matches(fault.store, occasion.store):
        return False
    if fault.effect is Effect.GONE:
        return True
    return occasion.is_commit and (
        fault.entity == EVERYTHING
        or any(matches(fault.entity, path) for path in occasion.entities)
    )


def matches(pattern: str, name: str) -> bool:
    """Names of Service Bus have no case."""
    return pattern == EVERYTHING or fnmatchcase(name.lower(), pattern.lower())


def added_ms(fault: InjectedFault, message_count: int) -> int:
    """How much longer a commit of so many messages takes."""
    by_rate = 1000 * message_count // fault.rate if fault.rate else 0
    return fault.delay_ms + by_rate
