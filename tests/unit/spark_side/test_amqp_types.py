"""Ids that are not strings, and bodies that are not data."""

from uuid import UUID

import pyarrow as pa
import pytest

from twinbus.amqp.codec import encode
from twinbus.amqp.types import Decimal32, Int, ULong
from twinbus.spark.amqp_types import exact_values
from twinbus.spark.row_errors import RowError, RowNames

ID = UUID("00112233-4455-6677-8899-aabbccddeeff")
TEXTS = pa.map_(pa.string(), pa.string())
FOUR = Decimal32(b"\x00\x01\x02\x03")

Row = tuple[dict[str, str] | None, str | None, bytes | str | None]


def exact(*rows: Row, whole: tuple[int, ...] = ()) -> dict[str, dict[int, bytes]]:
    """Of rows with types, message id and body."""
    types = [None if one[0] is None else list(one[0].items()) for one in rows]
    columns = {
        "message_id": pa.array([one[1] for one in rows], pa.string()),
        "body": pa.array([one[2] for one in rows]),
    }
    names = RowNames(pa.record_batch([columns["body"]], names=["body"]), {})
    return exact_values(pa.array(types, TEXTS), columns, whole, names)


def test_most_rows_have_no_types() -> None:
    nothing = {"message_id": {}, "correlation_id": {}, "body": {}}
    assert exact((None, "m", b"x"), (None, None, None)) == nothing
    assert exact((None, "m", b"x"), ({}, "m", b"x")) == nothing


def test_ids_get_their_types_back() -> None:
    found = exact(
        ({"message_id": "uuid"}, str(ID), b""),
        (None, "m", b""),
        ({"message_id": "ulong"}, "7", b""),
    )
    assert found["message_id"] == {0: encode(ID), 2: encode(ULong(7))}


def test_a_type_of_a_column_that_is_not_there_does_no_harm() -> None:
    assert exact(({"correlation_id": "uuid"}, None, b""))["correlation_id"] == {}


@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        ("value:string", b"text", encode("text")),
        ("value:string", "text", encode("text")),
        ("value:int", b"5", encode(Int(5))),
        ("value:uuid", str(ID).encode(), encode(ID)),
        ("value:binary", b"\x00\xff", encode(b"\x00\xff")),
        (
            "value:decimal32",
            b"\x00\x01\x02\x03",
            encode(Decimal32(b"\x00\x01\x02\x03")),
        ),
        ("value:null", None, encode(None)),
        ("value:string", None, encode(None)),
        ("none", None, b""),
    ],
)
def test_bodies_get_their_types_back(
    kind: str, body: bytes | str | None, expected: bytes
) -> None:
    assert exact(({"body": kind}, None, body))["body"] == {0: expected}


@pytest.mark.parametrize("kind", ["value", "sequence", "sections", "unreadable"])
def test_a_body_that_only_raw_has_is_refused(kind: str) -> None:
    row: Row = ({"body": kind}, None, b"[1]")
    with pytest.raises(RowError, match=r"row 2 of 2 .*includeRaw=true"):
        exact((None, None, b""), row)
    # With raw in its row it is not needed.
    assert exact((None, None, b""), row, whole=(1,))["body"] == {}


@pytest.mark.parametrize(
    ("types", "text"),
    [
        ({"subject": "symbol"}, "'amqp_types' has a type of 'subject'"),
        ({"body": "string"}, "a body has value:TYPE, none, or value, sequence"),
        ({"body": "value:int"}, "'body' has the type 'value:int'.*a whole number"),
        ({"message_id": "uuid"}, "'message_id' has the type 'uuid'.*must be a UUID"),
    ],
)
def test_a_wrong_type_is_told(types: dict[str, str], text: str) -> None:
    with pytest.raises(RowError, match=text):
        exact((types, "m", b"x"))
