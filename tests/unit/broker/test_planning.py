"""Plans against a simple model: what is planned, how it is split, in which order."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinbus.broker.outline import Outlines
from twinbus.broker.planning import AlignedPlan, FairPlan, Plan, PlannedRange, shares
from twinbus.broker.row_id import base_of

FOR_EVER = 1 << 60


@dataclass(frozen=True)
class Sent:
    number: int
    enqueued_at: int
    size_bytes: int


@st.composite
def fragments(draw: st.DrawFn) -> list[list[Sent]]:
    """Numbers rise and have holes; times rise, and several have the same (D6)."""
    made = []
    for _ in range(draw(st.integers(1, 4))):
        number, time, fragment = 0, 0, []
        for _ in range(draw(st.integers(0, 12))):
            number += draw(st.integers(1, 3))
            time += draw(st.integers(0, 2))
            fragment.append(Sent(number, time, draw(st.integers(0, 40))))
        made.append(fragment)
    return made


limits = st.integers(1, 30)
sizes = st.integers(1, 300)
portions = st.integers(1, 5)


def firsts_of(contents: list[list[Sent]], skipped: int) -> list[int]:
    return [skipped] * len(contents)


def carry_out(
    plan: Plan, contents: list[list[Sent]], portion: int, step: int = 3
) -> None:
    """As a server does it: portions are read where they are wanted."""
    while not plan.is_done():
        for index in plan.wanted():
            first = plan.next_of(index)
            rest = [sent for sent in contents[index] if sent.number >= first]
            outlines = Outlines()
            for sent in rest[:portion]:
                row_id = base_of(index) + sent.number
                outlines.add(row_id, sent.enqueued_at, sent.size_bytes, 0)
            plan.supply(index, outlines, len(rest) < portion)
        plan.advance(step)


def planned_of(planned: PlannedRange, content: list[Sent]) -> list[Sent]:
    """What a reader of the range finds."""
    return [sent for sent in content if planned.first <= sent.number < planned.end]


def check_range(
    planned: PlannedRange, content: list[Sent], expected: list[Sent], split: int
) -> None:
    """It holds what was expected, and its splits cover it exactly."""
    assert planned_of(planned, content) == expected
    assert planned.message_count == len(expected)
    assert planned.size_bytes == sum(sent.size_bytes for sent in expected)
    at = planned.first
    for part in planned.splits:
        assert part.first == at
        inside = [sent for sent in expected if part.first <= sent.number < part.end]
        assert part.message_count == len(inside) > 0
        assert part.size_bytes == sum(sent.size_bytes for sent in inside)
        at = part.end
    assert at == planned.end
    assert all(part.message_count == split for part in planned.splits[:-1])
    assert all(part.message_count <= split for part in planned.splits[-1:])


# --- fair -------------------------------------------------------------------------


def fair_model(content: list[Sent], messages: int, size_bytes: int) -> list[Sent]:
    taken: list[Sent] = []
    for sent in content:
        if len(taken) >= messages or sum(s.size_bytes for s in taken) >= size_bytes:
            break
        taken.append(sent)
    return taken


@given(fragments(), st.integers(0, 6), limits, sizes, st.integers(1, 6), portions)
def test_fair_plan_is_that_of_the_model(
    contents: list[list[Sent]],
    skipped: int,
    max_messages: int,
    max_bytes: int,
    split: int,
    portion: int,
) -> None:
    rest = [[sent for sent in c if sent.number >= skipped] for c in contents]
    backlogs = [len(content) for content in rest]
    firsts = firsts_of(contents, skipped)
    plan = FairPlan(firsts, backlogs, max_messages, max_bytes, split)
    carry_out(plan, contents, portion)
    message_shares = shares(max_messages, backlogs)
    byte_shares = shares(max_bytes, backlogs)
    for index, planned in enumerate(plan.ranges):
        expected: list[Sent] = []
        if backlogs[index]:
            share = message_shares[index], byte_shares[index]
            expected = fair_model(rest[index], *share)
            assert expected, "everybody has at least one"
        check_range(planned, contents[index], expected, split)


@given(st.integers(1, 1_000), st.lists(st.integers(0, 500), min_size=1, max_size=20))
def test_shares_are_fair(limit: int, backlogs: list[int]) -> None:
    given_out = shares(limit, backlogs)
    total = sum(backlogs)
    for share, backlog in zip(given_out, backlogs, strict=True):
        if backlog == 0:
            assert share == 0
        else:
            exact = limit * backlog / total
            assert max(1, exact - 1) <= share + 1e-6
            assert share <= max(1, exact)
    assert sum(given_out) <= limit + sum(1 for backlog in backlogs if backlog)


def test_no_backlog_is_done_at_once() -> None:
    plan = FairPlan([5, 7], [0, 0], 10, 10, 10)
    assert plan.is_done()
    assert [planned.end for planned in plan.ranges] == [5, 7]


# --- aligned ----------------------------------------------------------------------


def aligned_model(
    contents: list[list[Sent]], max_messages: int, max_bytes: int, horizon: int
) -> int:
    """The first instant that is not planned."""
    every = [sent for content in contents for sent in content]
    count = size_bytes = 0
    for instant in sorted({sent.enqueued_at for sent in every}):
        if instant >= horizon or count >= max_messages or size_bytes >= max_bytes:
            return instant
        together = [sent for sent in every if sent.enqueued_at == instant]
        count += len(together)
        size_bytes += sum(sent.size_bytes for sent in together)
    return FOR_EVER


@given(
    fragments(),
    st.integers(0, 6),
    limits,
    sizes,
    st.integers(1, 6),
    portions,
    st.one_of(st.integers(0, 15), st.just(FOR_EVER)),
)
def test_aligned_plan_is_everything_up_to_one_instant(
    contents: list[list[Sent]],
    skipped: int,
    max_messages: int,
    max_bytes: int,
    split: int,
    portion: int,
    horizon: int,
) -> None:
    rest = [[sent for sent in c if sent.number >= skipped] for c in contents]
    firsts = firsts_of(contents, skipped)
    plan = AlignedPlan(firsts, max_messages, max_bytes, split, horizon)
    carry_out(plan, contents, portion)
    end = aligned_model(rest, max_messages, max_bytes, horizon)
    for index, planned in enumerate(plan.ranges):
        expected = [sent for sent in rest[index] if sent.enqueued_at < end]
        check_range(planned, contents[index], expected, split)


@given(fragments(), limits, portions)
def test_aligned_batches_keep_the_order_of_times(
    contents: list[list[Sent]], max_messages: int, portion: int
) -> None:
    """Batch after batch until nothing is left: nothing is left out, or comes twice,
    and no batch has anything older than the one before."""
    firsts, latest, read = [0] * len(contents), -1, 0
    while True:
        plan = AlignedPlan(firsts, max_messages, FOR_EVER, 4, FOR_EVER)
        carry_out(plan, contents, portion)
        batch = [
            sent
            for planned, content in zip(plan.ranges, contents, strict=True)
            for sent in planned_of(planned, content)
        ]
        if not batch:
            break
        assert min(sent.enqueued_at for sent in batch) > latest
        latest = max(sent.enqueued_at for sent in batch)
        read += len(batch)
        firsts = [planned.end for planned in plan.ranges]
    assert read == sum(len(content) for content in contents)


def test_what_comes_in_while_others_are_read_waits_for_the_next_plan() -> None:
    """To the first fragment at 10, after it was read; then to the second at 11."""
    first, second = [Sent(1, 5, 1)], [Sent(1, 11, 1)]
    plan = AlignedPlan([0, 0], 100, FOR_EVER, 10, 10)
    carry_out(plan, [first, second], 4)
    assert [planned.message_count for planned in plan.ranges] == [1, 0]
    first.append(Sent(2, 10, 1))
    again = AlignedPlan([2, 0], 100, FOR_EVER, 10, 12)
    carry_out(again, [first, second], 4)
    assert [planned.message_count for planned in again.ranges] == [1, 1]


# --- both -------------------------------------------------------------------------


def test_no_portion_is_lost() -> None:
    plan = FairPlan([0], [2], 10, 100, 10)
    outlines = Outlines()
    outlines.add(base_of(0) + 1, 0, 1, 0)
    plan.supply(0, outlines, False)
    with pytest.raises(AssertionError, match="messages of the last portion"):
        plan.supply(0, outlines, True)


def test_portion_that_is_empty_but_not_the_last_is_asked_for_again() -> None:
    """All of it is being removed: the next read comes after the commit of that."""
    plan = FairPlan([0], [3], 10, 100, 10)
    plan.supply(0, Outlines(), False)
    assert plan.wanted() == [0]
    assert plan.next_of(0) == 0
    carry_out(plan, [[Sent(9, 0, 1)]], 4)
    assert plan.ranges[0].message_count == 1


def test_work_is_done_in_steps() -> None:
    content = [Sent(number, number, 1) for number in range(1, 11)]
    for plan in (
        FairPlan([0], [10], 10, 100, 10),
        AlignedPlan([0], 10, 100, 10, FOR_EVER),
    ):
        outlines = Outlines()
        for sent in content:
            outlines.add(base_of(0) + sent.number, sent.enqueued_at, 1, 0)
        plan.supply(0, outlines, True)
        plan.advance(3)
        assert plan.ranges[0].message_count == 3
        assert not plan.is_done()
        carry_out(plan, [content], 4, step=3)
        assert plan.ranges[0].message_count == 10
