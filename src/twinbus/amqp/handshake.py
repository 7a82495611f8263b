"""From the first byte to the AMQP header: protocol headers and SASL, both roles.

A handshake consumes bytes until `done`; then the frames of the connection begin. The
server answers the header before it sends the mechanisms, because Python's client reads
the eight bytes of the header by themselves. An unsupported header is answered with a
supported one, and the connection ends (AMQP 1.0 part 2, 2.2).
"""

from abc import abstractmethod
from typing import Final

from twinbus.amqp.errors import (
    NOT_ALLOWED,
    NOT_IMPLEMENTED,
    UNAUTHORIZED_ACCESS,
    FramingError,
    ProtocolError,
)
from twinbus.amqp.events import Event, SaslInitReceived
from twinbus.amqp.framing import FRAME_HEADER, HEADER_SIZE, SASL_FRAME
from twinbus.amqp.sasl import (
    OUTCOME_AUTH,
    OUTCOME_OK,
    SaslCredentials,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    decode_sasl,
    sasl_frame,
)

AMQP_HEADER: Final = b"AMQP\x00\x01\x00\x00"
SASL_HEADER: Final = b"AMQP\x03\x01\x00\x00"


class Handshake:
    """Common part of both roles."""

    def __init__(self, max_frame_size: int) -> None:
        # Output of this phase; it is written before any AMQP frame.
        self.output: list[bytes] = []
        # The remaining bytes are for the AMQP frame parser.
        self.done = False
        self._max_frame_size = max_frame_size

    @abstractmethod
    def advance(self, buf: bytes, at: int, events: list[Event]) -> int:
        """Consume one header or frame at `at`; return its size, 0 if incomplete."""

    def _frame_body(self, buf: bytes, at: int) -> tuple[bytes, int]:
        """Body and size of the SASL frame at `at`; size 0 if it is incomplete."""
        if len(buf) - at < HEADER_SIZE:
            return b"", 0
        size, offset, kind, _ = FRAME_HEADER.unpack_from(buf, at)
        if kind != SASL_FRAME or size > self._max_frame_size or size < offset * 4:
            raise FramingError("a SASL frame was expected")
        if offset < 2:
            raise FramingError("a frame's data offset is below two")
        if len(buf) - at < size:
            return b"", 0
        return buf[at + offset * 4 : at + size], size


class ServerHandshake(Handshake):
    def __init__(
        self, max_frame_size: int, mechanisms: tuple[str, ...], require_sasl: bool
    ) -> None:
        super().__init__(max_frame_size)
        self._mechanisms = mechanisms
        self._require_sasl = require_sasl
        self._in_sasl = False
        # The shell has the init; nothing is read before its answer.
        self.awaits_outcome = False
        self._authenticated = False

    def advance(self, buf: bytes, at: int, events: list[Event]) -> int:
        if self.awaits_outcome:
            return 0
        if self._in_sasl:
            return self._read_init(buf, at, events)
        if not AMQP_HEADER.startswith(buf[at : at + 4]):
            # It is wrong even if not all eight bytes have arrived.
            self._refuse_header()
        if len(buf) - at < HEADER_SIZE:
            return 0
        header = buf[at : at + HEADER_SIZE]
        if header == SASL_HEADER and not self._authenticated:
            self._in_sasl = True
            self.output.append(SASL_HEADER)
            self.output.append(
                sasl_frame(SaslMechanisms(sasl_server_mechanisms=self._mechanisms))
            )
        elif header == AMQP_HEADER and (self._authenticated or not self._require_sasl):
            self.output.append(AMQP_HEADER)
            self.done = True
        else:
            self._refuse_header()
        return HEADER_SIZE

    def _refuse_header(self) -> None:
        wants_sasl = self._require_sasl and not self._authenticated
        self.output.append(SASL_HEADER if wants_sasl else AMQP_HEADER)
        raise ProtocolError(NOT_IMPLEMENTED, "the protocol header is not supported")

    def _read_init(self, buf: bytes, at: int, events: list[Event]) -> int:
        body, size = self._frame_body(buf, at)
        if size == 0:
            return 0
        init = decode_sasl(body)
        if not isinstance(init, SaslInit):
            raise ProtocolError(NOT_ALLOWED, "a sasl-init was expected")
        if init.mechanism not in self._mechanisms:
            self.outcome(False)
            raise ProtocolError(
                UNAUTHORIZED_ACCESS, f"mechanism {init.mechanism} is not offered"
            )
        self.awaits_outcome = True
        response = init.initial_response or b""
        events.append(SaslInitReceived(init.mechanism, response, init.hostname))
        return size

    def outcome(self, ok: bool) -> None:
        code = OUTCOME_OK if ok else OUTCOME_AUTH
        self.output.append(sasl_frame(SaslOutcome(code=code)))
        self.awaits_outcome = False
        self._in_sasl = False
        self._authenticated = ok


class ClientHandshake(Handshake):
    """Sends its header at once. With credentials, SASL comes before AMQP."""

    def __init__(
        self,
        max_frame_size: int,
        credentials: SaslCredentials | None,
        hostname: str | None,
    ) -> None:
        super().__init__(max_frame_size)
        self._credentials = credentials
        self._hostname = hostname
        self._in_sasl = False
        self._expected = AMQP_HEADER if credentials is None else SASL_HEADER
        self.output.append(self._expected)

    @property
    def amqp_header_sent(self) -> bool:
        return self._expected == AMQP_HEADER

    def advance(self, buf: bytes, at: int, events: list[Event]) -> int:
        if self._in_sasl:
            return self._read_sasl(buf, at)
        if len(buf) - at < HEADER_SIZE:
            return 0
        header = buf[at : at + HEADER_SIZE]
        if header != self._expected:
            raise ProtocolError(
                NOT_IMPLEMENTED, f"the peer answered with protocol header {header!r}"
            )
        if header == SASL_HEADER:
            self._in_sasl = True
        else:
            self.done = True
        return HEADER_SIZE

    def _read_sasl(self, buf: bytes, at: int) -> int:
        body, size = self._frame_body(buf, at)
        if size == 0:
            return 0
        value = decode_sasl(body)
        if isinstance(value, SaslMechanisms):
            self._send_init(value.sasl_server_mechanisms)
        elif isinstance(value, SaslOutcome):
            if value.code != OUTCOME_OK:
                raise ProtocolError(
                    UNAUTHORIZED_ACCESS, f"the peer refused us, SASL code {value.code}"
                )
            self._in_sasl = False
            self._expected = AMQP_HEADER
            self.output.append(AMQP_HEADER)
        else:
            raise ProtocolError(NOT_ALLOWED, "an unexpected SASL frame arrived")
        return size

    def _send_init(self, offered: tuple[str, ...]) -> None:
        credentials = self._credentials
        assert credentials is not None
        if credentials.mechanism not in offered:
            raise ProtocolError(
                NOT_IMPLEMENTED,
                f"the peer offers {', '.join(offered)}, not {credentials.mechanism}",
            )
        self.output.append(
            sasl_frame(
                SaslInit(
                    mechanism=credentials.mechanism,
                    initial_response=credentials.initial_response,
                    hostname=self._hostname,
                )
            )
        )
