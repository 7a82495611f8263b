"""The JSON of what brokers ask each other for bulk requests, and of the answers.

Both sides are here, so that they agree. The values themselves are in
`operations/bulk/shares.py` and `requests.py`; brokers trust each other, so nothing is
checked but that the fields are those of the value.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from twinbus.broker.outline import Outlines
from twinbus.broker.row_id import sequence_of
from twinbus.operations.bulk.requests import (
    Appended,
    EntityRuntime,
    FragmentRuntime,
    LeaseInfo,
    Poison,
    RefusedRow,
    SettleRequest,
)
from twinbus.operations.bulk.shares import (
    HeldFragment,
    HeldFragments,
    Hold,
    PlanNote,
    SomeOutlines,
)

Json = Mapping[str, Any]


# --- requests ---------------------------------------------------------------------


def plan_note(value: Json) -> PlanNote:
    return PlanNote(**{**value, "hold": Hold(**value["hold"])})


def settle_request(value: Json) -> SettleRequest:
    poison = [Poison(**one) for one in value["dead_letter"]]
    # JSON has no other keys than texts.
    ends = {int(index): end for index, end in value["ends"].items()}
    return SettleRequest(**{**value, "dead_letter": poison, "ends": ends})


# --- answers ----------------------------------------------------------------------


def entity_runtime(value: Json | None) -> EntityRuntime | None:
    if value is None:
        return None
    fragments = [_fragment_runtime(one) for one in value["fragments"]]
    return EntityRuntime(**{**value, "fragments": fragments})


def _fragment_runtime(value: Json) -> FragmentRuntime:
    lease = value["lease"]
    return FragmentRuntime(**{**value, "lease": lease and LeaseInfo(**lease)})


def held_fragments(value: Json) -> HeldFragments:
    return HeldFragments(
        horizon=value["horizon"],
        fragments=[_held_fragment(one) for one in value["fragments"]],
    )


def _held_fragment(value: Json) -> HeldFragment:
    before = value["before"]
    return HeldFragment(
        **{
            **value,
            "hold": Hold(**value["hold"]),
            "before": None if before is None else (before[0], before[1]),
        }
    )


def shown_outlines(found: SomeOutlines) -> dict[str, Any]:
    outlines = found.outlines
    return {
        "numbers": [sequence_of(row_id) for row_id in outlines.row_ids],
        "enqueued_at": outlines.enqueued_at,
        "sizes": outlines.sizes,
        "is_last": found.is_last,
    }


def some_outlines(value: Json) -> SomeOutlines:
    """Without the bodies that they share, which a plan does not need."""
    outlines = Outlines()
    outlines.row_ids = value["numbers"]
    outlines.enqueued_at = value["enqueued_at"]
    outlines.sizes = value["sizes"]
    outlines.body_ids = [0] * len(value["numbers"])
    return SomeOutlines(outlines=outlines, is_last=value["is_last"])


def shown_append(appended: Appended) -> dict[str, Any]:
    return asdict(appended)


def appended(value: Json) -> Appended:
    refused = [RefusedRow(**one) for one in value["refused"]]
    return Appended(**{**value, "refused": refused})
