"""The types of transactions are decoded as they were encoded."""

import pytest

from twinbus.amqp.composite import decode_composite, encode_composite
from twinbus.amqp.outcomes import Accepted
from twinbus.amqp.transactions import (
    Coordinator,
    Declare,
    Declared,
    Discharge,
    TransactionalState,
)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (Coordinator(capabilities=("amqp:local-transactions",)), 0x30),
        (Declare(), 0x31),
        (Discharge(txn_id=b"t", fail=True), 0x32),
        (Declared(txn_id=b"t"), 0x33),
        (TransactionalState(txn_id=b"t", outcome=Accepted()), 0x34),
    ],
)
def test_transaction_types(value: object, code: int) -> None:
    data = encode_composite(value)
    assert data[:3] == bytes((0, 0x53, code))
    assert decode_composite(data, 0) == (value, len(data))
