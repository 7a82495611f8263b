"""Assembly of deliveries: limits of one delivery, and of a connection."""

import pytest

from twinbus.amqp.assembly import ASSEMBLY_BYTES, Assembly, Budget
from twinbus.amqp.errors import ProtocolError

# Without a payload, and with the tag below.
EMPTY_BYTES = ASSEMBLY_BYTES + 3


def assembly(budget: Budget, limit_bytes: int = 0) -> Assembly:
    return Assembly(budget, 1, b"tag", 0, limit_bytes)


def test_parts_become_one_payload_and_the_budget_is_given_back() -> None:
    budget = Budget(EMPTY_BYTES + 100, 1)
    delivery = assembly(budget)
    delivery.add(b"one")
    delivery.add(b"")
    delivery.add(b"two")
    assert budget.held_bytes == EMPTY_BYTES + 6
    assert delivery.take() == b"onetwo"
    assert budget.held_bytes == 0


def test_a_delivery_over_its_limit_keeps_nothing() -> None:
    budget = Budget(EMPTY_BYTES + 100, 1)
    delivery = assembly(budget, limit_bytes=5)
    delivery.add(b"12345")
    assert not delivery.oversize
    delivery.add(b"6")
    delivery.add(b"7")
    assert delivery.oversize
    assert budget.held_bytes == 0
    assert delivery.take() == b""


def test_the_deliveries_of_a_connection_share_a_budget() -> None:
    budget = Budget(2 * EMPTY_BYTES + 10, 1)
    first, second = assembly(budget), assembly(budget)
    first.add(b"123456")
    with pytest.raises(ProtocolError, match="resource-limit-exceeded"):
        second.add(b"12345")
    with pytest.raises(ProtocolError, match="resource-limit-exceeded"):
        assembly(budget)
    first.drop()
    second.drop()
    assert budget.held_bytes == 0
