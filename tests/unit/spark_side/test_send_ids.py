"""Send ids of rows: equal rows have the same id, others do not."""

from twinbus.limits import SEND_ID_BYTES
from twinbus.spark.send_ids import send_ids


def test_ids_do_not_change_from_release_to_release() -> None:
    """A bus remembers them for a day, across an upgrade of the job."""
    assert [found.hex() for found in send_ids("", [b"1"])] == [
        "2ecdd663eab397afb0e927aafc32e27e"
    ]
    assert len(send_ids("", [b"1"])[0]) == 16 <= SEND_ID_BYTES


def test_scope_and_value_are_told_apart() -> None:
    pairs = [("", b"ab"), ("a", b"b"), ("ab", b""), ("a\0", b"b"), ("b", b"a")]
    ids = {send_ids(scope, [value])[0] for scope, value in pairs}
    assert len(ids) == len(pairs)


def test_order_and_company_do_not_matter() -> None:
    assert send_ids("s", [b"1", b"2"]) == list(reversed(send_ids("s", [b"2", b"1"])))
