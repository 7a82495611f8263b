"""The message that is sent for a row of a lake."""

import pytest
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from twinbus.amqp.messaging import Data, Message, decode_message, encode_message
from twinbus.encoding.own_annotations import RESTORED_FROM
from twinbus.spark.jobs.replay.sending import ReplaySending
from twinbus.spark.row_errors import RowError
from twinbus.spark.write_options import write_options

NOW = 1_800_000_000_000
SCHEMA = StructType(
    [StructField("entity", StringType()), StructField("raw", BinaryType())]
)
RAW = encode_message(Message(body=Data((b"x",))))
ROW: dict[str, object] = {
    "entity": "orders",
    "generation": "g",
    "sequence_number": 7,
    "expires_at": NOW + 5_000,
    "raw": RAW,
}


def sending(**changes: object) -> ReplaySending:
    values: dict[str, object] = {
        "options": write_options({"credential": "env:X"}, SCHEMA, overwrite=False),
        "lake": "lake",
        "replay_id": "one",
        "targets": {"orders": "copies"},
        "drops_schedule": False,
        "drops_life": False,
        "keeps_expiry": False,
        "rate": None,
    }
    return ReplaySending(**{**values, **changes})  # type: ignore[arg-type]


def test_a_message_tells_where_it_comes_from() -> None:
    made = decode_message(sending().message(ROW, b"id", NOW))
    assert made.body == Data((b"x",)) and made.header is None
    origin = (made.message_annotations or {})[RESTORED_FROM]
    assert str(origin) == f"7@g@{sending().origin('orders')}"
    kept = decode_message(sending(keeps_expiry=True).message(ROW, b"id", NOW))
    assert kept.header is not None and kept.header.ttl == 5_000


def test_another_replay_or_target_is_another_origin() -> None:
    ids = {
        one.id_value(ROW)
        for one in (
            sending(),
            sending(replay_id="two"),
            sending(targets={"orders": "else"}),
            sending(lake="other"),
        )
    }
    assert len(ids) == 4
    assert len(sending().origin("orders")) < 200


def test_what_is_no_message_is_told() -> None:
    with pytest.raises(RowError, match="Message 7 of 'orders' in the lake is no AMQP"):
        sending().message({**ROW, "raw": b"\x00\x01"}, b"id", NOW)
