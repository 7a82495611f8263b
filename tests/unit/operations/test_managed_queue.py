"""Arguments of management requests are checked before anything is done."""

from typing import Any

import pytest
from unit.entities.world import World, message

from twinbus.amqp.types import AmqpArray, Int, ULong
from twinbus.broker.fragment import DEAD_LETTER, MAIN
from twinbus.doors.amqp.request_values import array_items, integer
from twinbus.entities.queue import Queue
from twinbus.errors import ArgumentError, ArgumentOutOfRange, MessagingEntityNotFound
from twinbus.links.arrivals import Arrivals
from twinbus.operations.managed_queue import ManagedQueue
from twinbus.operations.session_pages import SessionPages


def managed_queue(world: World, queue: Queue, sub_queue: int) -> ManagedQueue:
    rules = world.namespace.rules
    arrivals = Arrivals(queue.path, world.namespace.extensions, 1_000)
    return ManagedQueue(queue, sub_queue, 1, arrivals, SessionPages(), rules)


@pytest.mark.parametrize("value", [[1, 2], (1, 2), AmqpArray(0x81, [1, 2])])
def test_arrays_and_lists_are_the_same(value: Any) -> None:
    assert array_items(value, "numbers") == [1, 2]


@pytest.mark.parametrize("value", [[], 5, "ab", {"a": 1}, AmqpArray(0x81, [])])
def test_what_has_no_items_is_refused(value: Any) -> None:
    with pytest.raises(ArgumentError, match="'numbers' must be an array"):
        array_items(value, "numbers")


def test_arrays_have_a_limit() -> None:
    with pytest.raises(ArgumentOutOfRange, match="4097 items; at most 4096"):
        array_items([1] * 4097, "numbers")


@pytest.mark.parametrize("value", [1, Int(5), ULong(10)])
def test_integers_of_any_width_are_taken(value: int) -> None:
    found = integer(value, "count", 1, 10)
    assert (found, type(found)) == (int(value), int)


@pytest.mark.parametrize("value", [True, "1", 1.0, None])
def test_other_values_are_no_integers(value: Any) -> None:
    with pytest.raises(ArgumentError, match="'count' must be a whole number"):
        integer(value, "count", 1, 10)


@pytest.mark.parametrize("value", [0, 11])
def test_integers_have_limits(value: int) -> None:
    with pytest.raises(
        ArgumentOutOfRange, match=f"is {value}; it must be from 1 to 10"
    ):
        integer(value, "count", 1, 10)


async def test_what_was_asked_for_before_is_durable_when_it_has_settled(
    world: World,
) -> None:
    queue = await world.namespace.create_queue("orders", {})
    managed = managed_queue(world, queue, MAIN)
    managed.fragment.enqueue(message(), 1, managed.now(), world.owner.changes)
    await managed.settle_down()
    assert len(await world.store.browse(managed.fragment.number, 0, 9, 99)) == 1
    assert (managed.path, managed.owner) == ("orders", world.owner)


async def test_queue_that_was_deleted_meanwhile_is_not_found(world: World) -> None:
    queue = await world.namespace.create_queue("orders", {})
    managed = managed_queue(world, queue, DEAD_LETTER)
    await world.namespace.delete_queue("orders")
    with pytest.raises(MessagingEntityNotFound, match="orders"):
        await managed.settle_down()
