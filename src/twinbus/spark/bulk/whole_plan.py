"""Plans everything that entities have, in as many requests as needed."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from twinbus.spark.bulk.client import BulkClient, Planned, PlanPart

_SPLIT_MESSAGES: Final = 5_000
_MAX_PLAN_MESSAGES: Final = 1_000_000


def whole_plan(
    client: BulkClient, parts: Sequence[PlanPart], reader: str = ""
) -> list[Planned]:
    """One range for each fragment, in the order of the parts. Raises BulkError."""
    found: dict[tuple[str, int], Planned] = {}
    left = list(parts)
    while left:
        planned = client.plan(
            left,
            reader=reader,
            max_messages=_MAX_PLAN_MESSAGES,
            split_messages=_SPLIT_MESSAGES,
        )
        for more in planned:
            known = found.get((more.path, more.fragment))
            found[more.path, more.fragment] = _joined(known, more)
        left = _following(left, planned)
    order = {part.path: at for at, part in enumerate(parts)}
    return sorted(found.values(), key=lambda one: (order[one.path], one.fragment))


def _joined(known: Planned | None, more: Planned) -> Planned:
    if known is None:
        return more
    return replace(known, end=more.end, splits=[*known.splits, *more.splits])


def _following(parts: Sequence[PlanPart], planned: Sequence[Planned]) -> list[PlanPart]:
    """The entities of which something was planned, and where to go on in them."""
    ends: dict[str, dict[int, int]] = {}
    for found in planned:
        ends.setdefault(found.path, {})[found.fragment] = found.end
    filled = {found.path for found in planned if found.splits}
    return [
        # The ends are not before the time at which to begin.
        replace(part, firsts=ends[part.path], from_time=None)
        for part in parts
        if part.path in filled
    ]
