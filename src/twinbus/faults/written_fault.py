"""Faults as they are written in JSON: by `twinbus faults`, `/$faults` and tests.

{"effect": "refuse", "operations": ["send"], "entity": "orders-*",
 "for": "30s", "probability": 0.2, "seed": 7}
"""

from collections.abc import Mapping
from typing import Any, Final

from twinbus.durations import duration_ms, readable_duration
from twinbus.errors import ArgumentError
from twinbus.faults.fault import (
    EVERYTHING,
    STORE_EFFECTS,
    USUAL_OPERATIONS,
    Effect,
    InjectedFault,
    Operation,
)

_NAMES: Final = (
    *("effect", "operations", "entity", "store", "namespace", "for", "probability"),
    *("seed", "delay", "rate"),
)
_RATE_MAX: Final = 1_000_000


def read_fault(written: Mapping[str, Any], now: int) -> InjectedFault:
    """Raises ArgumentError."""
    unknown = sorted(written.keys() - set(_NAMES))
    if unknown:
        raise ArgumentError.about(
            "fault", value=unknown[0], expected=f"one of {', '.join(_NAMES)}"
        )
    lasting_ms = _duration(written, "for")
    fault = InjectedFault(
        effect=_effect(written.get("effect")),
        operations=_operations(written.get("operations")),
        entity=_pattern(written, "entity"),
        store=_pattern(written, "store"),
        namespace=_pattern(written, "namespace"),
        until=now + lasting_ms if lasting_ms else 0,
        probability=_probability(written.get("probability", 1.0)),
        seed=_number(written, "seed", -(1 << 63), (1 << 63) - 1),
        delay_ms=_duration(written, "delay"),
        rate=_number(written, "rate", 1, _RATE_MAX) or 0,
    )
    _check_parts(fault, written)
    return fault


def _check_parts(fault: InjectedFault, written: Mapping[str, Any]) -> None:
    """Refuse parts that would have no meaning. Raises ArgumentError."""
    effect, is_store = fault.effect.value, fault.effect in STORE_EFFECTS
    if is_store and written.get("operations"):
        raise ArgumentError(
            f"A fault '{effect}' hits a store, whatever is done with it: leave out "
            "'operations'."
        )
    if not is_store and fault.store != EVERYTHING:
        raise ArgumentError(
            f"A fault '{effect}' hits operations of clients: give 'entity', and not "
            "'store'."
        )
    if fault.effect is Effect.GONE and fault.entity != EVERYTHING:
        raise ArgumentError(
            "A fault 'gone' hits a whole store: give 'store', and not 'entity'."
        )
    if fault.operations == {Operation.CONNECT} and fault.entity != EVERYTHING:
        raise ArgumentError(
            "A client that connects has named no entity yet: leave out 'entity'."
        )
    has_pace = bool(fault.delay_ms or fault.rate)
    if has_pace != (fault.effect is Effect.SLOW):
        raise ArgumentError(
            "A fault 'slow' needs 'delay' or 'rate', and no other fault has them."
        )


def write_fault(fault: InjectedFault, now: int) -> dict[str, Any]:
    """As it is answered: what was written, its number, and how long it still lasts."""
    return {
        "number": fault.number,
        "effect": fault.effect.value,
        "operations": []
        if fault.effect in STORE_EFFECTS
        else sorted(one.value for one in fault.operations),
        "entity": fault.entity,
        "store": fault.store,
        "namespace": fault.namespace,
        "probability": fault.probability,
        "seed": fault.seed,
        "delay_ms": fault.delay_ms,
        "rate": fault.rate,
        "until": fault.until or None,
        "left_ms": fault.until - now if fault.until else None,
    }


def read_copy(shown: Mapping[str, Any], now: int) -> InjectedFault:
    """The fault that another broker has written. What is left of its time counts: the
    clocks of brokers differ. Raises ArgumentError."""
    try:
        left_ms = shown["left_ms"]
        return InjectedFault(
            effect=_effect(shown["effect"]),
            operations=_operations(shown["operations"]),
            entity=shown["entity"],
            store=shown["store"],
            namespace=shown["namespace"],
            until=0 if left_ms is None else now + left_ms,
            probability=shown["probability"],
            seed=shown["seed"],
            delay_ms=shown["delay_ms"],
            rate=shown["rate"],
            number=shown["number"],
        )
    except (KeyError, TypeError) as error:
        # The other broker may be of another version.
        raise ArgumentError(f"The fault can't be read: {error!r}.") from None


def described(fault: InjectedFault) -> str:
    """In one line, for the log."""
    parts = [fault.effect.value]
    if fault.effect not in STORE_EFFECTS:
        parts.append("/".join(sorted(one.value for one in fault.operations)))
    for name in ("entity", "store", "namespace"):
        pattern = getattr(fault, name)
        if pattern != EVERYTHING:
            parts.append(f"{name} {pattern}")
    if fault.delay_ms:
        parts.append(f"delay {readable_duration(fault.delay_ms)}")
    if fault.rate:
        parts.append(f"{fault.rate} messages per second")
    if fault.probability < 1:
        parts.append(f"probability {fault.probability}")
    return ", ".join(parts)


def _effect(written: object) -> Effect:
    try:
        return Effect(written)
    except ValueError:
        known = ", ".join(each.value for each in Effect)
        raise ArgumentError.about(
            "effect", value=written, expected=f"one of {known}"
        ) from None


def _operations(written: object) -> frozenset[Operation]:
    if not written:
        return USUAL_OPERATIONS
    if not isinstance(written, list | tuple):
        raise ArgumentError.about("operations", value=written, expected="a list")
    try:
        return frozenset(Operation(each) for each in written)
    except ValueError:
        known = ", ".join(each.value for each in Operation)
        raise ArgumentError.about(
            "operations", value=written, expected=f"some of {known}"
        ) from None


def _pattern(written: Mapping[str, Any], name: str) -> str:
    value = written.get(name) or EVERYTHING
    if not isinstance(value, str):
        raise ArgumentError.about(name, value=value, expected="a name or a pattern")
    # A path of an entity has no slash at its ends, that of a file may.
    return value if name == "store" else value.strip("/")


def _duration(written: Mapping[str, Any], name: str) -> int:
    value = written.get(name)
    if value is None:
        return 0
    try:
        return duration_ms(value)
    except ValueError as error:
        raise ArgumentError(f"'{name}' of the fault: {error}.") from None


def _probability(written: object) -> float:
    is_number = isinstance(written, int | float) and not isinstance(written, bool)
    if not is_number or not 0 < float(str(written)) <= 1:
        raise ArgumentError.about(
            "probability", value=written, expected="a number above 0 and at most 1"
        )
    return float(str(written))


def _number(
    written: Mapping[str, Any], name: str, lowest: int, highest: int
) -> int | None:
    value = written.get(name)
    if value is None:
        return None
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if not is_number or not lowest <= value <= highest:
        raise ArgumentError.about(
            name, value=value, expected=f"a whole number from {lowest} to {highest}"
        )
    return int(value)
