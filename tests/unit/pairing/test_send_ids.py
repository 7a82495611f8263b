"""Ids of sends, and the numbers of scheduled ones."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from twinbus.pairing.send_ids import SendIds, number_of, send_id_of, was_tried


def ids(seed: int = 1) -> SendIds:
    return SendIds(Random(seed).randbytes)


def test_ids_of_a_process_are_in_order_and_of_sixteen_bytes() -> None:
    one = ids()
    drawn = [one.next() for _ in range(300)]
    assert drawn == sorted(set(drawn))
    assert {len(send_id) for send_id in drawn} == {16}


def test_processes_do_not_share_ids() -> None:
    assert ids(1).next()[:8] != ids(2).next()[:8]


def test_scheduled_id_is_never_nothing() -> None:
    none = SendIds(bytes)
    assert int.from_bytes(none.next_scheduled(), "big") == 1


@given(entropy=st.binary(min_size=8, max_size=8), tried=st.booleans())
def test_number_leads_back_to_its_id(entropy: bytes, tried: bool) -> None:
    send_id = SendIds(lambda size: entropy).next_scheduled()
    number = number_of(send_id, was_tried=tried)
    assert -(1 << 63) <= number < 0
    assert send_id_of(number) == send_id
    assert was_tried(number) is tried
