"""The ranges of a batch query: all messages that are there now, within the bounds."""

from dataclasses import replace

from twinbus.clock import SystemClock
from twinbus.spark.bulk.client import (
    BulkClient,
    EntityBounds,
    FragmentBounds,
    PlanPart,
)
from twinbus.spark.bulk.snapshot_age import SnapshotAge
from twinbus.spark.bulk.whole_plan import whole_plan
from twinbus.spark.option_reader import OptionError
from twinbus.spark.packing import Range
from twinbus.spark.read_options import ReadBounds, ReadOptions


def snapshot(options: ReadOptions) -> tuple[list[Range], SnapshotAge]:
    """Raises BulkError, OptionError."""
    client = BulkClient(options.connection, options.patience_ms)
    try:
        found, missing = client.runtime(options.entities, options.pattern)
        if missing:
            raise OptionError(
                f"'entities' names '{missing[0]}', which does not exist in "
                f"{client.address}, or is a topic. Name another; of a topic read a "
                "subscription: TOPIC/subscriptions/NAME."
            )
        ranges: list[Range] = []
        for entity in found:
            ranges += _ranges(client, options, entity)
        return ranges, SnapshotAge.of(found, SystemClock().now())
    finally:
        client.close()


def _ranges(
    client: BulkClient, options: ReadOptions, entity: EntityBounds
) -> list[Range]:
    bounds = options.bounds.narrowed(options.pushed)
    wanted = {
        fragment.index: _wanted(fragment, bounds) for fragment in entity.fragments
    }
    part = PlanPart(
        path=entity.path,
        generation=entity.generation,
        firsts={index: first for index, (first, _) in wanted.items()},
        ends={index: end for index, (_, end) in wanted.items()},
        from_time=bounds.start_time,
        to_time=bounds.end_time,
    )
    if options.states == ("active",):
        planned = whole_plan(client, [part])
        return [found for fragment in planned for found in fragment.splits]
    # Only active messages are planned; these are read as they come.
    return [
        _whole(
            client, part, fragment.index, fragment.active_count + fragment.other_count
        )
        for fragment in entity.fragments
        if part.firsts[fragment.index] < part.ends[fragment.index]
    ]


def _wanted(fragment: FragmentBounds, bounds: ReadBounds) -> tuple[int, int]:
    """The first number to read of a fragment, and the first that is not read. Empty if
    the bounds name other fragments only."""
    base, end = fragment.base, fragment.next
    if bounds.to_sequence is not None:
        end = max(base, min(end, bounds.to_sequence + 1))
    return min(max(base, bounds.from_sequence or 0), end), end


def _whole(client: BulkClient, part: PlanPart, index: int, message_count: int) -> Range:
    whole = Range(
        path=part.path,
        generation=part.generation,
        fragment=index,
        first=part.firsts[index],
        end=part.ends[index],
        message_count=message_count,
        size_bytes=0,
    )
    first, end = whole.first, whole.end
    if part.from_time is not None:
        first = _first_since(client, whole, part.from_time)
    if part.to_time is not None:
        end = _first_since(client, whole, part.to_time)
    return replace(whole, first=first, end=end)


def _first_since(client: BulkClient, whole: Range, instant: int) -> int:
    """The number of the first message that was enqueued at that time or later, or the
    end of the range. Later numbers have later times, in every state."""
    low, high = whole.first, whole.end
    while low < high:
        middle = (low + high) // 2
        found = client.enqueued_from(replace(whole, first=middle))
        if found is None or found[1] >= instant:
            high = middle
        else:
            low = found[0] + 1
    return low
