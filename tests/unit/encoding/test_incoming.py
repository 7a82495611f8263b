"""What is read from a sender's bytes, and what is refused."""

from itertools import product

import pytest

from twinbus.amqp.codec import encode
from twinbus.amqp.messaging import (
    AmqpSequence,
    AmqpValue,
    Data,
    Header,
    Message,
    Properties,
    encode_message,
)
from twinbus.amqp.types import Described, Int, Symbol, Timestamp, UByte, ULong
from twinbus.encoding.incoming import read_message
from twinbus.encoding.layout import (
    EXTENSIONS,
    PING,
    RESTORED,
    SENT_ONCE,
    bare_offset,
    is_durable,
    priority_of,
)
from twinbus.errors import ArgumentError, MessageSizeExceeded
from twinbus.limits import (
    DURATION_MS_UNLIMITED,
    PROPERTIES_BYTES,
    TRANSFER_HEADROOM_BYTES,
)

VALUE = b"\x00\x53\x77\x40"
HEADERS = (None, Header(), Header(durable=True, priority=9, ttl=1234))
ANNOTATIONS = (None, {}, {Symbol("x-opt-partition-key"): "k"})
PROPERTIES = (None, Properties(), Properties(message_id="id", group_id="g"))
APPLICATION = (None, {}, {"a": 1})
BODIES = (None, Data((b"a", b"b")), AmqpSequence(([1], [])), AmqpValue({"a": 1}))
FOOTERS = (None, {Symbol("sum"): 1})
COMBINATIONS = list(
    product(HEADERS, ANNOTATIONS, ANNOTATIONS, PROPERTIES, APPLICATION, BODIES, FOOTERS)
)


def section(code: int, value: object) -> bytes:
    return encode(Described(ULong(code), value))


def test_every_combination_of_sections_is_located() -> None:
    for (
        header,
        delivery,
        annotations,
        properties,
        application,
        body,
        footer,
    ) in COMBINATIONS:
        before = encode_message(
            Message(
                header=header,
                delivery_annotations=delivery,
                message_annotations=annotations,
            )
        )
        bare = encode_message(
            Message(
                properties=properties,
                application_properties=application,
                body=body,
                footer=footer,
            )
        )
        message = read_message(before + bare)
        assert message.raw == before + bare
        assert bare_offset(message.layout) == len(before)
        is_annotated = annotations is not None or delivery is not None
        assert message.layout & 1 == is_annotated
        assert message.ttl_ms == ((header and header.ttl) or 0)
        assert is_durable(message.layout) == bool(header and header.durable)
        assert priority_of(message.layout) == ((header and header.priority) or 4)


def test_message_without_sections_is_a_message() -> None:
    message = read_message(b"")
    assert (message.raw, bare_offset(message.layout)) == (b"", 0)


@pytest.mark.parametrize(
    "first", [b"\x00\x80" + bytes(7) + b"\x70", b"\x00\xa3\x10amqp:header:list"]
)
def test_other_descriptors_are_rewritten_once(first: bytes) -> None:
    message = read_message(first + b"\xc0\x02\x01\x41" + VALUE)
    assert message.raw == b"\x00\x53\x70\xc0\x02\x01\x41" + VALUE
    assert is_durable(message.layout)


@pytest.mark.parametrize(
    "codes",
    [
        (0x73, 0x70),
        (0x77, 0x73),
        (0x78, 0x77),
        (0x70, 0x70),
        (0x74, 0x74),
        (0x77, 0x77),
        (0x78, 0x78),
        (0x75, 0x77),
        (0x75, 0x76),
        (0x76, 0x77),
    ],
)
def test_sections_in_a_wrong_order_are_refused(codes: tuple[int, ...]) -> None:
    values = {0x70: [], 0x73: [], 0x74: {}, 0x75: b"", 0x76: [], 0x77: None, 0x78: {}}
    raw = b"".join(section(code, values[code]) for code in codes)
    with pytest.raises(ArgumentError, match="wrong order"):
        read_message(raw)


@pytest.mark.parametrize(
    "raw",
    [
        section(0x70, {}),
        section(0x72, []),
        section(0x72, "text"),
        section(0x73, {}),
        section(0x73, None),
        section(0x73, "a" * 20),
        section(0x74, []),
        section(0x74, None),
        section(0x75, "text"),
        section(0x75, None),
        b"\x00\x53\x72\xc1\x05\x02\x45\x40\x40\x40",
        b"\x00\x53\x73\xc0\x03\x02\x40\xa1",
        b"\x00\x53\x73\xc0\x04\x01\x40\x40\x40",
        b"\x00\x53\x73\xd0\x00\x00\x00\x05\x00\x00\x00\x01\xa1",
        b"\x00\x53\x74\xc1\x03\x02\xa1\x05",
        b"\x00\x53\x74\xc1\x02\x01\x40",
        b"\x00\x53\x99\x40",
        b"\xa1\x02hi",
    ],
)
def test_sections_that_could_not_be_delivered_are_refused(raw: bytes) -> None:
    with pytest.raises(ArgumentError, match="malformed"):
        read_message(raw + VALUE)
    with pytest.raises(ArgumentError):
        read_message(raw)


def test_message_cut_off_anywhere_is_refused_or_shorter() -> None:
    whole = encode_message(
        Message(
            header=Header(durable=True, priority=9, ttl=1234),
            delivery_annotations={Symbol("d"): 1},
            message_annotations={Symbol("x-opt-partition-key"): "k"},
            properties=Properties(message_id="id", group_id="g"),
            application_properties={"a": 1, "b": "two"},
            body=Data((b"a", b"b" * 300)),
            footer={Symbol("sum"): 1},
        )
    )
    shorter = []
    for end in range(len(whole)):
        try:
            shorter.append(len(read_message(whole[:end]).raw))
        except ArgumentError:
            continue
        assert shorter[-1] == end
    # Nothing, and what ends with one of the seven sections before the last.
    assert len(shorter) == 8


# --- header ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ttl", "expected"),
    [
        (1, 1),
        (0xFFFFFFFF, 0xFFFFFFFF),
        (0, 0),
        (None, 0),
        ("5", 0),
        (Int(-5), 0),
        (DURATION_MS_UNLIMITED - 1, DURATION_MS_UNLIMITED - 1),
        (DURATION_MS_UNLIMITED, 0),
        (ULong((1 << 64) - 1), 0),
    ],
)
def test_time_to_live_is_a_positive_time_or_none(ttl: object, expected: int) -> None:
    assert read_message(section(0x70, [None, None, ttl])).ttl_ms == expected


def test_header_fields_of_other_types_are_defaults() -> None:
    message = read_message(section(0x70, ["yes", "high"]))
    assert not is_durable(message.layout)
    assert priority_of(message.layout) == 4


def test_headers_are_told_apart_however_many_there_were() -> None:
    for ttl in range(1, 1500):
        raw = section(0x70, [True, UByte(ttl % 10), ULong(ttl)])
        for message in (read_message(raw), read_message(raw)):
            assert message.ttl_ms == ttl
            assert priority_of(message.layout) == ttl % 10


def test_long_headers_are_read_like_short_ones() -> None:
    raw = section(0x70, [None, None, ULong(7), "x" * 100])
    assert [read_message(raw).ttl_ms for _ in range(2)] == [7, 7]


# --- annotations ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("due", "expected"),
    [
        (Timestamp(1_800_000_000_000), 1_800_000_000_000),
        ((1 << 63) - 1, (1 << 63) - 1),
        (Timestamp(0), 0),
        (Timestamp(-1), 0),
        ("tomorrow", 0),
        (None, 0),
    ],
)
def test_scheduled_time_is_an_instant_or_none(due: object, expected: int) -> None:
    raw = section(0x72, {Symbol("x-opt-scheduled-enqueue-time"): due})
    assert read_message(raw).scheduled_at == expected


def test_scheduled_time_that_no_store_could_keep_is_refused() -> None:
    raw = section(0x72, {Symbol("x-opt-scheduled-enqueue-time"): ULong(1 << 63)})
    with pytest.raises(ArgumentError, match="no timestamp"):
        read_message(raw)


# --- limits ---------------------------------------------------------------------


@pytest.mark.parametrize("text", ["x" * 128, "\u00e9" * 128, "x" * 127])
def test_message_ids_up_to_the_limit_are_taken(text: str) -> None:
    read_message(encode_message(Message(properties=Properties(message_id=text))))


@pytest.mark.parametrize("text", ["x" * 129, "\u00e9" * 129, "x" * 300])
def test_longer_message_ids_are_refused(text: str) -> None:
    raw = encode_message(Message(properties=Properties(message_id=text)))
    with pytest.raises(ArgumentError, match=f"{len(text)} characters; at most 128"):
        read_message(raw)


@pytest.mark.parametrize("key", ["x" * 128, "\u00e9" * 128, b"x" * 300, 7, None])
def test_partition_keys_up_to_the_limit_are_taken(key: object) -> None:
    annotations: dict[object, object] = {Symbol("x-opt-partition-key"): key}
    read_message(encode_message(Message(message_annotations=annotations)))


@pytest.mark.parametrize("key", ["x" * 129, "\u00e9" * 129, Symbol("x" * 300)])
def test_longer_partition_keys_are_refused(key: str) -> None:
    annotations: dict[object, object] = {Symbol("x-opt-partition-key"): key}
    raw = encode_message(Message(message_annotations=annotations))
    with pytest.raises(ArgumentError, match=f"partition key has {len(key)} char"):
        read_message(raw)


@pytest.mark.parametrize("message_id", [b"x" * 300, 7, ULong(7), None])
def test_message_ids_of_other_types_have_no_limit(message_id: object) -> None:
    read_message(encode_message(Message(properties=Properties(message_id=message_id))))


def test_wide_properties_are_checked_like_narrow_ones() -> None:
    properties = Properties(message_id="x" * 129, subject="y" * 300)
    with pytest.raises(ArgumentError, match="129 characters"):
        read_message(encode_message(Message(properties=properties)))


def test_properties_have_a_limit_and_the_body_does_not_count() -> None:
    # Descriptor, map, key "a" and the length of its value come before the text.
    text = "x" * (65_536 - 3 - 9 - 3 - 5)
    body = Data((bytes(9),))
    fitting = encode_message(Message(application_properties={"a": text}))
    assert len(fitting) == 65_536
    read_message(fitting + encode_message(Message(body=body)))
    too_large = Message(application_properties={"a": text + "x"}, body=body)
    with pytest.raises(MessageSizeExceeded, match="65537 bytes; at most 65536"):
        read_message(encode_message(too_large))


def test_delivery_annotations_at_the_end_are_put_in_their_place() -> None:
    # So the Python SDK sends them.
    header, body = b"\x00\x53\x70\xc0\x02\x01\x41", b"\x00\x53\x75\xa0\x01x"
    annotations = b"\x00\x53\x71\xc1\x06\x02\xa3\x01a\x54\x01"
    for before in (header, b""):
        message = read_message(before + body + annotations)
        assert message.raw == before + annotations + body
        assert is_durable(message.layout) == bool(before)


def test_delivery_annotations_come_once() -> None:
    annotations = b"\x00\x53\x71\xc1\x01\x00"
    with pytest.raises(ArgumentError, match="one of them twice"):
        read_message(annotations + b"\x00\x53\x75\xa0\x01x" + annotations)


PING_TYPE = "application/vnd.ms-servicebus-ping"


def pinging(content_type: object) -> bytes:
    properties = Properties(message_id="id", content_type=content_type, group_id="g")
    return encode_message(Message(properties=properties))


@pytest.mark.parametrize("content_type", [Symbol(PING_TYPE), PING_TYPE])
def test_ping_is_told_by_its_content_type(content_type: str) -> None:
    raw = pinging(Symbol(PING_TYPE))
    if not isinstance(content_type, Symbol):
        raw = raw.replace(b"\xa3\x22application", b"\xa1\x22application")
    message = read_message(raw, EXTENSIONS)
    assert message.layout & EXTENSIONS == PING
    assert message.session_id == "g"


def test_ping_is_told_also_in_the_long_form() -> None:
    short = PING_TYPE.encode()
    fields = b"\x40" * 6 + b"\xb3\x00\x00\x00\x22" + short
    raw = b"\x00\x53\x73\xc0" + bytes((len(fields) + 1, 7)) + fields
    assert read_message(raw, EXTENSIONS).layout & PING
    cut = raw.replace(b"\x00\x00\x00\x22", b"\x00\x00\x00\x21", 1)
    with pytest.raises(ArgumentError):
        read_message(cut, EXTENSIONS)


@pytest.mark.parametrize(
    "content_type", [None, "", "x", PING_TYPE[:-1], PING_TYPE + "s"]
)
def test_other_content_types_are_no_pings(content_type: str | None) -> None:
    symbol = None if content_type is None else Symbol(content_type)
    assert read_message(pinging(symbol), EXTENSIONS).layout & EXTENSIONS == 0


OWN: dict[object, object] = {
    Symbol("x-opt-twinbus-send-id"): b"1",
    Symbol("x-opt-twinbus-restored-from"): "nonsense",
    Symbol("x-opt-scheduled-enqueue-time"): Timestamp(5),
}


def test_annotations_of_our_own_are_noted() -> None:
    raw = encode_message(Message(message_annotations=OWN))
    message = read_message(raw, EXTENSIONS)
    assert message.layout & EXTENSIONS == SENT_ONCE | RESTORED
    assert message.scheduled_at == 5
    only_restored = {key: value for key, value in OWN.items() if "send" not in str(key)}
    raw = encode_message(Message(message_annotations=only_restored))
    assert read_message(raw, EXTENSIONS).layout & EXTENSIONS == RESTORED


def test_what_is_not_offered_is_not_seen() -> None:
    annotations = {**OWN, Symbol("x-opt-twinbus-send-id"): b"x" * 100}
    raw = encode_message(Message(message_annotations=annotations))
    assert read_message(raw).layout & EXTENSIONS == 0
    assert read_message(raw, RESTORED).layout & EXTENSIONS == RESTORED
    assert read_message(pinging(Symbol(PING_TYPE))).layout & EXTENSIONS == 0
    with pytest.raises(ArgumentError, match="send-id"):
        read_message(raw, EXTENSIONS)


def test_properties_have_head_room_for_ids_of_our_own() -> None:
    def sized(size_bytes: int, annotations: dict[object, object] | None) -> bytes:
        def made(length: int) -> bytes:
            application = {"p": "x" * length}
            return encode_message(
                Message(
                    message_annotations=annotations, application_properties=application
                )
            )

        return made(size_bytes - len(made(1000)) + 1000)

    larger = PROPERTIES_BYTES + TRANSFER_HEADROOM_BYTES
    identified: dict[object, object] = {Symbol("x-opt-twinbus-send-id"): b"1"}
    for annotations, limit_bytes, fits in (
        (None, PROPERTIES_BYTES, PROPERTIES_BYTES),
        (None, larger, larger),
        (identified, PROPERTIES_BYTES, larger),
        (identified, larger, larger),
    ):
        read_message(sized(fits, annotations), EXTENSIONS, limit_bytes)
        with pytest.raises(MessageSizeExceeded, match=str(fits + 1)):
            read_message(sized(fits + 1, annotations), EXTENSIONS, limit_bytes)


@pytest.mark.parametrize("place", range(13))
@pytest.mark.parametrize("field", [b"", b"\xa3", b"\xa1\x05x", b"\xb3\x00\x00"])
def test_properties_that_end_within_a_field_are_refused(
    place: int, field: bytes
) -> None:
    # Two bytes each, so that there are enough of them for the count.
    fields = b"\xa1\x00" * place + field
    raw = b"\x00\x53\x73\xc0" + bytes((len(fields) + 1, place + 1)) + fields
    with pytest.raises(ArgumentError, match="malformed"):
        read_message(raw, EXTENSIONS)
