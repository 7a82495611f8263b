"""Malicious bytes: nothing is raised, and memory stays in proportion."""

import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from unit.amqp.endpoints import feed, of_type, raw_frame

from twinbus.amqp.codec import decode, encode, skip
from twinbus.amqp.connection import Connection, Role
from twinbus.amqp.errors import DecodeError
from twinbus.amqp.events import LinkAttached
from twinbus.amqp.framing import frame
from twinbus.amqp.handshake import AMQP_HEADER, SASL_HEADER
from twinbus.amqp.messaging import decode_message
from twinbus.amqp.performatives import (
    ATTACH,
    BEGIN,
    DISPOSITION,
    OPEN,
    TRANSFER,
)
from twinbus.amqp.types import Described, UInt, ULong

OPENING = AMQP_HEADER + raw_frame(0, OPEN, ["peer"])
BEGINNING = raw_frame(0, BEGIN, [None, UInt(0), UInt(9), UInt(9)])
ATTACHING = raw_frame(
    0,
    ATTACH,
    ["n", UInt(0), False, None, None, None, Described(ULong(0x29), ["q"])],
)

# Bytes that lead somewhere more often than random ones do.
constructors = st.sampled_from(
    b"\x00\x40\x41\x43\x45\x52\x53\x56\x70\x80\xa0\xa1\xa3\xb0\xc0\xc1\xd0\xd1\xe0\xf0"
)
likely_bytes = st.lists(
    st.one_of(constructors, st.integers(0x10, 0x18), st.integers(0, 255)), max_size=80
).map(bytes)


def attached_server(**options: int) -> Connection:
    bus = Connection(Role.SERVER, "s", require_sasl=False, **options)  # type: ignore[arg-type]
    events = bus.receive_data(OPENING + BEGINNING + ATTACHING, 0)
    [attached] = of_type(events, LinkAttached)
    attached.link.accept(max_message_size=10_000)
    attached.link.issue_credit(100)
    bus.data_to_send()
    return bus


@given(st.one_of(st.binary(max_size=200), likely_bytes))
@example(bytes.fromhex("f0000000 05 ffffffff 41"))
@example(bytes.fromhex("d0 00000004 ffffffff"))
def test_decoding_anything_gives_a_value_or_a_decode_error(data: bytes) -> None:
    for attempt in (decode, skip):
        try:
            attempt(data, 0)  # type: ignore[operator]
        except DecodeError:
            pass
    try:
        decode_message(data)
    except DecodeError:
        pass


@given(st.binary(max_size=300))
def test_anything_may_come_first(data: bytes) -> None:
    for header in (b"", SASL_HEADER, AMQP_HEADER):
        bus = Connection(Role.SERVER, "s", require_sasl=False)
        feed(bus, header + data)
        bus.data_to_send()


@given(st.lists(st.tuples(st.integers(0x10, 0x18), likely_bytes), max_size=8))
def test_any_performative_may_have_any_fields(
    frames: list[tuple[int, bytes]],
) -> None:
    bus = attached_server()
    for code, fields in frames:
        bus.receive_data(frame(0, b"\x00\x53" + bytes((code,)) + fields), 0)
        bus.data_to_send()


@given(st.data())
def test_a_changed_byte_anywhere_is_survived(data: st.DataObject) -> None:
    transfer = raw_frame(0, TRANSFER, [UInt(0), UInt(0), b"t", UInt(0), False], b"xy")
    disposition = raw_frame(0, DISPOSITION, [True, UInt(0), UInt(9), True])
    stream = bytearray(OPENING + BEGINNING + ATTACHING + transfer + disposition)
    at = data.draw(st.integers(0, len(stream) - 1))
    stream[at] = data.draw(st.integers(0, 255))
    bus = Connection(Role.SERVER, "s", require_sasl=False)
    feed(bus, bytes(stream), chunk_size=data.draw(st.sampled_from([1, 16, 65536])))


def peak_bytes(action: Callable[[], object]) -> int:
    """The most memory an action takes, which may be done three times over.

    The least of three: threads of the test runner allocate too (a message of its own
    is read into 64 KB), but not each time.
    """
    return min(traced_peak(action) for _ in range(3))


def traced_peak(action: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def attempt_decode(data: bytes) -> None:
    try:
        decode(data, 0)
    except DecodeError:
        pass


@pytest.mark.parametrize(
    "data",
    [
        bytes.fromhex("f0000000 05 ffffffff 41"),
        bytes.fromhex("f0000000 05 7fffffff 45"),
        bytes.fromhex("d0 ffffffff ffffffff") + bytes(100),
        bytes.fromhex("b0 ffffffff") + bytes(100),
        b"\x00" * 60_000,
        encode([[]] * 60_000),
        b"".join([b"\xd0\xff\xff\xff\xff\xff\xff\xff\xff"] * 5000),
        encode([Described(ULong(1), None)] * 10_000),
    ],
)
def test_decoding_takes_memory_in_proportion_to_the_input(data: bytes) -> None:
    # A list of empty lists is the worst honest case: 65 bytes for each byte.
    assert peak_bytes(lambda: attempt_decode(data)) < 20_000 + 100 * len(data)


@given(likely_bytes)
def test_decoding_anything_takes_memory_in_proportion(data: bytes) -> None:
    attempt_decode(data)
    assert peak_bytes(lambda: attempt_decode(data)) < 20_000 + 400 * len(data)


def test_a_frame_that_never_ends_is_held_only_up_to_its_limit() -> None:
    def send_slowly() -> None:
        bus = attached_server(max_frame_size=65536)
        bus.receive_data(b"\x00\x01\x00\x00\x02\x00\x00\x00", 0)
        for _ in range(65_000):
            bus.receive_data(b"x", 0)

    # Single bytes, each of which would be an object of its own in a list.
    assert peak_bytes(send_slowly) < 4 * 65536


def test_a_message_that_never_ends_is_dropped_at_the_links_limit() -> None:
    first = raw_frame(
        0, TRANSFER, [UInt(0), UInt(0), b"t", None, None, True], b"x" * 500
    )
    more = raw_frame(0, TRANSFER, [UInt(0), None, None, None, None, True], b"x" * 500)

    def send_for_ever() -> None:
        bus = attached_server()
        before = bus.held_bytes()
        bus.receive_data(first, 0)
        for _ in range(2000):
            bus.receive_data(more, 0)
            bus.data_to_send()
        assert not bus.closed
        assert bus.held_bytes() == before

    assert peak_bytes(send_for_ever) < 100_000


def test_many_half_messages_are_bounded_together() -> None:
    bus = Connection(Role.SERVER, "s", require_sasl=False, limit_bytes=50_000)
    bus.receive_data(OPENING + BEGINNING, 0)
    target = Described(ULong(0x29), ["q"])
    for handle in range(200):
        fields = [f"n{handle}", UInt(handle), False, None, None, None, target]
        for event in bus.receive_data(raw_frame(0, ATTACH, fields), 0):
            if isinstance(event, LinkAttached):
                event.link.accept()
        half = [UInt(handle), UInt(handle), b"t", None, None, True]
        bus.receive_data(raw_frame(0, TRANSFER, half, b"x" * 1000), 0)
        bus.data_to_send()
    assert bus.closed


def test_ranges_of_all_ids_cost_nothing() -> None:
    bus = attached_server()
    session = bus.sessions[0]
    session.unsettled.update(dict.fromkeys(range(1000)))
    session.next_delivery_id = 1000
    everything = raw_frame(0, DISPOSITION, [True, UInt(0), UInt(2**31 - 1), True])
    for _ in range(100):
        assert len(bus.receive_data(everything, 0)) == 1
        assert len(session.find_unsettled(0, 2**31 - 1)) == 1000


def test_empty_frames_leave_nothing_behind() -> None:
    bus = attached_server()
    flood = b"\x00\x00\x00\x08\x02\x00\x00\x00" * 8000
    assert peak_bytes(lambda: bus.receive_data(flood, 0)) < 20_000
