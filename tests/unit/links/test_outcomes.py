"""Delivery states and settlements: each row of the table in the module."""

import pytest

from twinbus.amqp.codec import encode
from twinbus.amqp.errors import AmqpError
from twinbus.amqp.outcomes import (
    ACCEPTED,
    ACCEPTED_OUTCOME,
    MODIFIED,
    REJECTED,
    RELEASED,
    Modified,
    Received,
    Rejected,
    Released,
)
from twinbus.amqp.types import Described, Short, Symbol, ULong
from twinbus.broker.fragment import DEAD_LETTER
from twinbus.broker.message_lock import MessageLock
from twinbus.errors import ArgumentOutOfRange, MessageLockLost, NotSupported
from twinbus.links.outcomes import (
    STATE_OF,
    dead_letter_text,
    is_terminal,
    modified_properties,
    settle,
)

from .world import NOW, World


def locked(world: World) -> MessageLock:
    world.home.enqueue()
    [lock] = world.fragment.lock(1, 1, NOW, bytes(5), world.home.changes)
    return lock


def applied(world: World, lock: MessageLock, state: object) -> bytes:
    """The echo of a state after it was applied and committed."""
    kind = settle(world.fragment, lock, state, 1, NOW, world.home.changes)
    world.home.commit()
    return STATE_OF[kind]


def test_accepted_completes(world: World) -> None:
    assert applied(world, locked(world), ACCEPTED_OUTCOME) == ACCEPTED
    assert world.fragment.active_count == 0


@pytest.mark.parametrize("failed", [None, False, True])
def test_modified_abandons_whatever_else_it_says(
    world: World, failed: bool | None
) -> None:
    lock = locked(world)
    assert applied(world, lock, Modified(delivery_failed=failed)) == MODIFIED
    assert (world.fragment.active_count, lock.message.delivery_count) == (1, 1)


def test_modified_undeliverable_here_defers(world: World) -> None:
    state = Modified(undeliverable_here=True, message_annotations={"a": Short(1)})
    lock = locked(world)
    assert applied(world, lock, state) == MODIFIED
    assert (world.fragment.active_count, world.fragment.deferred_count) == (0, 1)
    assert lock.message.annex is not None
    assert lock.message.annex.modified == {"a": encode(Short(1))}


@pytest.mark.parametrize("state", [Released(), None])
def test_released_or_nothing_gives_back(world: World, state: object) -> None:
    lock = locked(world)
    assert applied(world, lock, state) == RELEASED
    assert (world.fragment.active_count, lock.message.delivery_count) == (1, 0)


def test_rejected_dead_letters_with_texts_and_properties(world: World) -> None:
    info = {
        Symbol("DeadLetterReason"): "why",
        Symbol("DeadLetterErrorDescription"): "because",
        "other": Short(1),
    }
    error = AmqpError("com.microsoft:dead-letter", "", info)
    assert applied(world, locked(world), Rejected(error=error)) == REJECTED
    dead = world.home.table.sub_queue_of(world.fragment, DEAD_LETTER)
    [message] = dead.window.ready_messages()
    assert message.annex is not None
    assert message.annex.dead_letter_reason == "why"
    assert message.annex.dead_letter_description == "because"
    assert message.annex.modified == {"other": encode(Short(1))}


@pytest.mark.parametrize("error", [None, AmqpError("amqp:not-found", "")])
def test_rejected_dead_letters_without_texts(
    world: World, error: AmqpError | None
) -> None:
    assert applied(world, locked(world), Rejected(error=error)) == REJECTED
    dead = world.home.table.sub_queue_of(world.fragment, DEAD_LETTER)
    [message] = dead.window.ready_messages()
    assert message.annex is not None and message.annex.dead_letter_reason is None


def test_unknown_state_is_refused_and_settles_nothing(world: World) -> None:
    lock = locked(world)
    state = Described(ULong(0x99), [b"x"])
    with pytest.raises(NotSupported, match="accepted, modified, rejected or released"):
        settle(world.fragment, lock, state, 1, NOW, world.home.changes)
    assert world.fragment.holds(lock, NOW)


def test_settling_twice_is_refused(world: World) -> None:
    lock = locked(world)
    applied(world, lock, ACCEPTED_OUTCOME)
    with pytest.raises(MessageLockLost, match="'orders'"):
        settle(world.fragment, lock, ACCEPTED_OUTCOME, 1, NOW, world.home.changes)


@pytest.mark.parametrize(
    ("state", "settled", "expected"),
    [
        (ACCEPTED_OUTCOME, False, True),
        (Modified(), False, True),
        (Rejected(), False, True),
        (Released(), False, True),
        (None, False, False),
        (Received(section_number=0, section_offset=0), False, False),
        (None, True, True),
    ],
)
def test_deliveries_end_with_an_outcome_or_by_being_settled(
    state: object, settled: bool, expected: bool
) -> None:
    assert is_terminal(state, settled) is expected


def test_texts_of_dead_letters_have_a_limit() -> None:
    assert dead_letter_text("x" * 4096) == "x" * 4096
    with pytest.raises(ArgumentOutOfRange, match="4097 characters; at most 4096"):
        dead_letter_text("x" * 4097)


def test_no_properties_are_nothing_to_modify() -> None:
    assert modified_properties(None) is None
    assert modified_properties({}) is None
