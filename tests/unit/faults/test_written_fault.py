"""A fault in JSON is read whole, or refused with what is wrong in it."""

from typing import Any

import pytest

from twinbus.errors import ArgumentError
from twinbus.faults.fault import Effect, Operation
from twinbus.faults.written_fault import described, read_fault, write_fault


def test_all_parts_are_read() -> None:
    fault = read_fault(
        {
            "effect": "refuse",
            "operations": ["send", "connect"],
            "entity": "orders",
            "namespace": "site-*",
            "for": "30s",
            "probability": 0.2,
            "seed": 7,
        },
        1000,
    )
    assert fault.effect is Effect.REFUSE
    assert fault.operations == {Operation.SEND, Operation.CONNECT}
    assert (fault.entity, fault.namespace, fault.until) == ("orders", "site-*", 31_000)
    assert (fault.probability, fault.seed) == (0.2, 7)
    assert described(fault) == (
        "refuse, connect/send, entity orders, namespace site-*, probability 0.2"
    )
    assert write_fault(fault, 1000)["left_ms"] == 30_000


def test_slow_fault_has_a_pace() -> None:
    fault = read_fault({"effect": "slow", "delay": "0.5s", "rate": 10}, 0)
    assert (fault.delay_ms, fault.rate) == (500, 10)
    assert write_fault(fault, 0)["operations"] == []
    assert described(fault) == "slow, delay 0.5s, 10 messages per second"


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ({}, "effect"),
        ({"effect": "explode"}, "one of refuse, busy"),
        ({"effect": "refuse", "entities": "orders"}, "entities"),
        ({"effect": "refuse", "operations": "send"}, "a list"),
        ({"effect": "refuse", "operations": ["fly"]}, "some of send"),
        ({"effect": "refuse", "probability": 0}, "above 0"),
        ({"effect": "refuse", "probability": True}, "above 0"),
        ({"effect": "refuse", "probability": 1.5}, "at most 1"),
        ({"effect": "refuse", "for": "soon"}, "not a duration"),
        ({"effect": "refuse", "store": "x"}, "not 'store'"),
        ({"effect": "refuse", "entity": 5}, "a name or a pattern"),
        ({"effect": "refuse", "delay": "1s"}, "no other fault"),
        ({"effect": "slow"}, "needs 'delay' or 'rate'"),
        ({"effect": "slow", "rate": 0}, "whole number"),
        ({"effect": "gone", "entity": "orders"}, "whole store"),
        ({"effect": "gone", "operations": ["send"]}, "leave out 'operations'"),
        (
            {"effect": "refuse", "operations": ["connect"], "entity": "orders"},
            "leave out 'entity'",
        ),
    ],
)
def test_what_has_no_meaning_is_refused(
    written: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ArgumentError, match=complaint):
        read_fault(written, 0)


def test_file_of_a_store_keeps_its_slashes() -> None:
    written = {"effect": "gone", "store": "/data/bus.sqlite3"}
    assert read_fault(written, 0).store == "/data/bus.sqlite3"
    assert read_fault({"effect": "busy", "entity": "/orders/"}, 0).entity == "orders"
