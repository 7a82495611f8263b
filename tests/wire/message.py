"""Messages of the wire tests: sections to bytes and back, without defaults."""

from typing import Any, NamedTuple

from .codec import Described, Long, Reader, Symbol, Timestamp, Uint, Ulong, encode

HEADER = 0x70
DELIVERY_ANNOTATIONS = 0x71
MESSAGE_ANNOTATIONS = 0x72
PROPERTIES = 0x73
APPLICATION_PROPERTIES = 0x74
DATA = 0x75
SEQUENCE = 0x76
VALUE = 0x77
FOOTER = 0x78

_BODY = (DATA, SEQUENCE, VALUE)
_HEADER_FIELDS = ("durable", "priority", "ttl", "first_acquirer", "delivery_count")
_PROPERTY_FIELDS = (
    "message_id",
    "user_id",
    "to",
    "subject",
    "reply_to",
    "correlation_id",
    "content_type",
    "content_encoding",
    "absolute_expiry_time",
    "creation_time",
    "group_id",
    "group_sequence",
    "reply_to_group_id",
)

# The batch format of Service Bus: each data section holds one encoded message.
BATCH_FORMAT = 0x80013700


def section(code: int, value: Any) -> bytes:
    """One section as bytes."""
    return encode(Described(Ulong(code), value))


def data_message(body: bytes | str, **sections: Any) -> bytes:
    """A message with one data section, and sections as in `message`."""
    content = body.encode() if isinstance(body, str) else body
    return message(section(DATA, content), **sections)


def value_message(value: Any, **sections: Any) -> bytes:
    """A message with an amqp-value section, and sections as in `message`."""
    return message(section(VALUE, value), **sections)


def message(
    body: bytes,
    *,
    header: dict[str, Any] | None = None,
    annotations: dict[str, Any] | None = None,
    properties: dict[str, Any] | None = None,
    application_properties: dict[str, Any] | None = None,
    footer: dict[str, Any] | None = None,
) -> bytes:
    """A message around encoded body sections."""
    parts = []
    if header is not None:
        parts.append(section(HEADER, _fields(_HEADER_FIELDS, header)))
    if annotations is not None:
        named = {Symbol(key): value for key, value in annotations.items()}
        parts.append(section(MESSAGE_ANNOTATIONS, named))
    if properties is not None:
        parts.append(section(PROPERTIES, _fields(_PROPERTY_FIELDS, properties)))
    if application_properties is not None:
        parts.append(section(APPLICATION_PROPERTIES, application_properties))
    parts.append(body)
    if footer is not None:
        parts.append(section(FOOTER, footer))
    return b"".join(parts)


def batch(*messages: bytes) -> bytes:
    """The envelope of a batch, to be sent with `BATCH_FORMAT`."""
    return b"".join(section(DATA, one) for one in messages)


def scheduled_message(body: str, due_at: int, **sections: Any) -> bytes:
    """A message to be enqueued at an instant (milliseconds of the epoch)."""
    annotations = {"x-opt-scheduled-enqueue-time": Timestamp(due_at)}
    return data_message(body, annotations=annotations, **sections)


def expiring_message(body: str, ttl_ms: int) -> bytes:
    """A message with a time to live."""
    return data_message(body, header={"ttl": Uint(ttl_ms)})


class Received:
    """A decoded message: sections in order, and the usual ones by name."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.sections: list[tuple[int, Any]] = []
        reader = Reader(raw)
        while not reader.at_end:
            descriptor, value = reader.read()
            self.sections.append((int(descriptor), value))

    @property
    def codes(self) -> list[int]:
        """The kinds of the sections, in order."""
        return [code for code, _ in self.sections]

    def only(self, code: int) -> Any:
        """The value of a section that is there at most once; None if it is not."""
        values = [value for kind, value in self.sections if kind == code]
        assert len(values) <= 1, f"section {code:#x} is there {len(values)} times"
        return values[0] if values else None

    @property
    def header(self) -> dict[str, Any]:
        """Header fields by name; all None without a header."""
        return _by_name(_HEADER_FIELDS, self.only(HEADER))

    @property
    def properties(self) -> dict[str, Any]:
        """Property fields by name; all None without properties."""
        return _by_name(_PROPERTY_FIELDS, self.only(PROPERTIES))

    @property
    def annotations(self) -> dict[Any, Any]:
        """Message annotations."""
        return self.only(MESSAGE_ANNOTATIONS) or {}

    @property
    def application_properties(self) -> dict[str, Any]:
        """Application properties."""
        return self.only(APPLICATION_PROPERTIES) or {}

    @property
    def body(self) -> list[tuple[int, Any]]:
        """The body sections, each with its kind."""
        return [entry for entry in self.sections if entry[0] in _BODY]

    @property
    def text(self) -> str:
        """The body of a message made by `data_message`."""
        return b"".join(value for _, value in self.body).decode()

    @property
    def sequence_number(self) -> int:
        """The sequence number, which has to be a long."""
        number = self.annotations[Symbol("x-opt-sequence-number")]
        assert type(number) is Long
        return int(number)


class Delivery(NamedTuple):
    """A received delivery."""

    delivery_id: int
    tag: bytes
    settled: bool
    message: Received
    frame_count: int


def _fields(names: tuple[str, ...], values: dict[str, Any]) -> list[Any]:
    unknown = set(values) - set(names)
    assert not unknown, f"no such field: {unknown}"
    return [values.get(name) for name in names]


def _by_name(names: tuple[str, ...], values: list[Any] | None) -> dict[str, Any]:
    padded = list(values or [])
    padded += [None] * (len(names) - len(padded))
    return dict(zip(names, padded, strict=True))
