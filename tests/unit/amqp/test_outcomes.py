"""Delivery states: the prebuilt ones and the decoded ones."""

import pytest

from twinbus.amqp.composite import encode_composite
from twinbus.amqp.errors import AmqpError
from twinbus.amqp.outcomes import (
    ACCEPTED,
    MODIFIED,
    REJECTED,
    RELEASED,
    Accepted,
    Modified,
    Received,
    Rejected,
    Released,
    decode_state,
    encode_rejected,
)
from twinbus.amqp.types import Symbol


def test_prebuilt_states_are_empty_outcomes() -> None:
    assert ACCEPTED.hex() == "00532445"
    assert decode_state(RELEASED, 0) == (Released(), 4)
    assert decode_state(MODIFIED, 0) == (Modified(), 4)
    assert encode_rejected(None) == REJECTED


@pytest.mark.parametrize(
    "state",
    [
        Accepted(),
        Rejected(error=AmqpError("a:b", "c", {Symbol("k"): None})),
        Modified(
            delivery_failed=True,
            undeliverable_here=False,
            message_annotations={Symbol("x"): 1},
        ),
        Received(section_number=1, section_offset=2),
    ],
)
def test_a_state_comes_back_as_it_was(state: object) -> None:
    data = encode_composite(state)
    assert decode_state(data, 0) == (state, len(data))


def test_rejected_carries_its_error() -> None:
    error = AmqpError("a:b", "c")
    state, _ = decode_state(encode_rejected(error), 0)
    assert state == Rejected(error=error)
