"""A link: messages in one direction between two containers, with credit.

One class is used for both directions: if `peer_is_receiver`, we send, and `credit` is
what the peer allows now. Otherwise we receive, and `credit` is what is left of what we
issued. Some clients send without credit, so that is counted but is not an error.

The shell may answer a peer's attach at once or later, with `accept` or `refuse`; other
links continue meanwhile. A flow that arrives before the answer is a LinkFlow as usual,
and is valid from the answer on. Calls on a link that has ended do nothing, since a late
answer cannot know of the end; only `send` without credit is misuse.
"""

from typing import TYPE_CHECKING, Final, final

from twinbus.amqp.assembly import ATTACH_FACTOR, LINK_BYTES, Assembly
from twinbus.amqp.codec import decode
from twinbus.amqp.composite import (
    descriptor_code,
    encode_composite,
    nested_to_wire,
)
from twinbus.amqp.errors import (
    INVALID_FIELD,
    NOT_ALLOWED,
    AmqpError,
    LocalError,
    SessionError,
)
from twinbus.amqp.events import (
    Event,
    LinkAttached,
    LinkDetached,
    LinkFlow,
    MessageReceived,
)
from twinbus.amqp.fastpath import ABSENT, FlowFields, TransferFields
from twinbus.amqp.messaging import Target
from twinbus.amqp.performatives import Attach, Detach, error_of
from twinbus.amqp.state import LINK, LinkState, LinkStep
from twinbus.amqp.transfers import TransferWriter
from twinbus.amqp.types import Described, Encoded

if TYPE_CHECKING:
    from twinbus.amqp.session import AmqpSession

_MASK: Final = 0xFFFFFFFF
_HALF: Final = 0x80000000
_NULL: Final = b"\x40"


@final
class Link:
    def __init__(
        self,
        session: "AmqpSession",
        name: str,
        handle: int,
        peer_is_receiver: bool,
    ) -> None:
        self.session: AmqpSession = session
        self.name: str = name
        # Our handle and the peer's; ABSENT until the peer has attached.
        self.handle: int = handle
        self.remote_handle: int = ABSENT
        self.peer_is_receiver: bool = peer_is_receiver
        self.state: LinkState = LinkState.UNATTACHED
        # Source and target of the peer's attach, decoded and as bytes.
        self.source: object = None
        self.target: object = None
        self.raw_source: bytes = _NULL
        self.raw_target: bytes = _NULL
        self.snd_settle_mode: int = 2
        self.rcv_settle_mode: int = 0
        self.properties: dict[object, object] = {}
        # The peer's limit, and ours for messages from the peer; 0: no limit.
        self.max_message_size: int = 0
        self.local_max_message_size: int = 0
        self.initial_delivery_count: int = 0
        # Flow state; changed by `send`, by incoming frames, and by `issue_credit`.
        self.credit: int = 0
        self.drain: bool = False
        self.available: int = 0
        self.delivery_count: int = 0
        # For the shell: any object that it wants to keep with the link.
        self.context: object = None
        self._writer: TransferWriter | None = None
        self._assembly: Assembly | None = None
        self._receiving: bool = False
        # The peer asked for our flow before we sent our attach.
        self._owes_flow: bool = False
        # Its part of the connection's budget.
        self.held_bytes: int = 0

    def accept(
        self,
        *,
        source: object = None,
        target: object = None,
        properties: dict[object, object] | None = None,
        max_message_size: int = 0,
        tolerated_message_size: int = 0,
        initial_delivery_count: int = 0,
        offered_capabilities: tuple[str, ...] | None = None,
    ) -> None:
        """Answer the peer's attach.

        Source and target are the peer's unless given, as bytes or values. Deliveries
        above `max_message_size`, up to `tolerated_message_size`, are passed to the
        shell.
        """
        if self.state is not LinkState.ATTACH_RCVD or not self.session.live:
            return
        if self.peer_is_receiver:
            self.delivery_count = initial_delivery_count
        self.local_max_message_size = max(max_message_size, tolerated_message_size)
        self._write_attach(
            Attach(
                name=self.name,
                handle=self.handle,
                role=not self.peer_is_receiver,
                snd_settle_mode=self.snd_settle_mode,
                rcv_settle_mode=self.rcv_settle_mode,
                source=_terminus(source, self.raw_source, b"\x28"),
                target=_terminus(target, self.raw_target, b"\x29"),
                initial_delivery_count=(
                    initial_delivery_count if self.peer_is_receiver else None
                ),
                max_message_size=max_message_size or None,
                offered_capabilities=offered_capabilities,
                properties=properties,
            )
        )
        self._answered()
        self._start()
        if self._owes_flow:
            self._owes_flow = False
            self.session.write_flow(self, False)

    def refuse(self, error: AmqpError) -> None:
        """Answer the peer's attach with null termini, and a detach with the error."""
        if self.state is LinkState.ATTACH_RCVD:
            self.detach(error)

    def detach(self, error: AmqpError | None = None, closed: bool = True) -> None:
        if not self.session.live:
            return
        if self.state is LinkState.ATTACH_RCVD:
            self._answer_without_termini()
        following = LINK.get((self.state, LinkStep.SEND_DETACH))
        if following is None:
            return
        self.state = following
        self.stop()
        detach = Detach(handle=self.handle, closed=closed, error=error)
        self.session.write(encode_composite(detach))

    def request(self, attach: Attach) -> None:
        """Send an attach; the peer's answer confirms it."""
        self.local_max_message_size = attach.max_message_size or 0
        self.snd_settle_mode = attach.snd_settle_mode
        self.rcv_settle_mode = attach.rcv_settle_mode
        self._write_attach(attach)

    def _answer_without_termini(self) -> None:
        self._write_attach(
            Attach(
                name=self.name,
                handle=self.handle,
                role=not self.peer_is_receiver,
                snd_settle_mode=self.snd_settle_mode,
                rcv_settle_mode=self.rcv_settle_mode,
                initial_delivery_count=0 if self.peer_is_receiver else None,
            )
        )
        self._answered()

    def hold_attach(self, size_bytes: int) -> None:
        """Count the peer's attach against the budget. Raises ProtocolError."""
        held_bytes = LINK_BYTES + ATTACH_FACTOR * size_bytes
        self.session.budget.hold(held_bytes)
        self.held_bytes = held_bytes

    def _answered(self) -> None:
        """After the answer only the names of the peer's attach are needed."""
        self.source = None
        self.raw_source = self.raw_target = _NULL
        self.properties = {}
        kept_bytes = LINK_BYTES + len(self.name)
        target = self.target
        if isinstance(target, Target) and isinstance(target.address, str):
            self.target = Target(address=target.address)
            kept_bytes += len(target.address)
        else:
            self.target = None
        self.session.budget.release(self.held_bytes - kept_bytes)
        self.held_bytes = kept_bytes

    def _write_attach(self, attach: Attach) -> None:
        self.state = LINK[(self.state, LinkStep.SEND_ATTACH)]
        self.session.write(encode_composite(attach))

    def _start(self) -> None:
        if self.peer_is_receiver:
            self._writer = TransferWriter(self.session.channel, self.handle)
        else:
            self._receiving = True

    def stop(self) -> None:
        """Stop sending and receiving."""
        self.credit = 0
        self._writer = None
        self._receiving = False
        if self._assembly is not None:
            self._assembly.drop()
            self._assembly = None
        self.session.drop_held(self)

    def on_attach(self, attach: Attach, raw_source: bytes, raw_target: bytes) -> None:
        self.state = LINK[(self.state, LinkStep.RECEIVE_ATTACH)]
        self.remote_handle = attach.handle
        self.source = attach.source
        self.target = attach.target
        self.raw_source = raw_source
        self.raw_target = raw_target
        self.snd_settle_mode = attach.snd_settle_mode
        self.rcv_settle_mode = attach.rcv_settle_mode
        self.properties = attach.properties or {}
        self.max_message_size = attach.max_message_size or 0
        if not self.peer_is_receiver:
            self.initial_delivery_count = attach.initial_delivery_count or 0
            self.delivery_count = self.initial_delivery_count

    def on_confirmed(self, events: list[Event]) -> None:
        """The peer answered our attach. If it refuses, its detach follows."""
        if self.state is not LinkState.ATTACHED:
            return
        terminus = self.target if self.peer_is_receiver else self.source
        if terminus is not None:
            self._start()
            events.append(LinkAttached(self))

    def on_detach(self, detach: Detach, events: list[Event]) -> None:
        if self.state is LinkState.ATTACH_RCVD:
            self._answer_without_termini()
        self.state = LINK[(self.state, LinkStep.RECEIVE_DETACH)]
        self.stop()
        if self.state is LinkState.DETACH_RCVD:
            self.state = LINK[(self.state, LinkStep.SEND_DETACH)]
            answer = Detach(handle=self.handle, closed=detach.closed)
            self.session.write(encode_composite(answer))
        self.session.forget(self)
        events.append(LinkDetached(self, detach.closed, error_of(detach.error)))

    def send(
        self,
        payload: bytes,
        tag: bytes,
        settled: bool,
        context: object = None,
        message_format: int = 0,
        state: bytes | None = None,
    ) -> int:
        """Send one message and return its delivery id.

        Raises LocalError without credit: check `credit` first.
        """
        writer = self._writer
        if writer is None or self.credit <= 0:
            raise LocalError(f"link {self.name} has no credit to send")
        session = self.session
        delivery_id = session.next_delivery_id
        if (
            message_format != 0
            or state is not None
            or session.remote_incoming_window <= 0
            or session.held
            or not writer.whole(
                session.outbox.pieces,
                delivery_id,
                tag,
                settled,
                payload,
                session.outbox.max_frame_size,
            )
        ):
            session.write_transfers(
                self,
                writer.frames(
                    delivery_id,
                    tag,
                    settled,
                    payload,
                    message_format,
                    state,
                    session.outbox.max_frame_size,
                ),
            )
        else:
            session.remote_incoming_window -= 1
            session.next_outgoing_id = (session.next_outgoing_id + 1) & _MASK
        session.next_delivery_id = (delivery_id + 1) & _MASK
        self.credit -= 1
        self.delivery_count = (self.delivery_count + 1) & _MASK
        if not settled:
            session.unsettled[delivery_id] = context
        return delivery_id

    def drained(self) -> None:
        """Answer a drain: use up the remaining credit without messages."""
        if self._writer is None:
            return
        self.delivery_count = (self.delivery_count + self.credit) & _MASK
        self.credit = 0
        self.session.write_flow(self, True)
        self.drain = False

    def issue_credit(self, credit: int, drain: bool = False) -> None:
        """Allow the peer this many messages; this replaces the remaining credit."""
        if not self._receiving:
            return
        self.credit = credit
        self.drain = drain
        self.session.write_flow(self, drain)

    def on_transfer(
        self,
        fields: TransferFields,
        buf: bytes,
        at: int,
        end: int,
        events: list[Event],
    ) -> None:
        if not self._receiving:
            self._check_late_transfer()
            return
        if self._assembly is not None or fields.more or fields.aborted:
            self._assemble(fields, buf[at:end], events)
            return
        tag = fields.delivery_tag
        if fields.delivery_id < 0 or tag is None:
            raise SessionError(INVALID_FIELD, "a delivery has no id or no tag")
        limit = self.local_max_message_size
        oversize = 0 < limit < end - at
        events.append(
            MessageReceived(
                self,
                fields.delivery_id,
                tag,
                fields.message_format if fields.message_format > 0 else 0,
                fields.settled,
                fields.state,
                b"" if oversize else buf[at:end],
                oversize,
            )
        )
        self.credit -= 1
        self.delivery_count = (self.delivery_count + 1) & _MASK

    def _check_late_transfer(self) -> None:
        """Transfers in flight while we detached are dropped; any other is an error."""
        if self.peer_is_receiver:
            raise SessionError(NOT_ALLOWED, "a transfer came from a link's receiver")
        if self.state is LinkState.ATTACH_RCVD:
            raise SessionError(NOT_ALLOWED, "a transfer came before our attach")

    def _assemble(
        self, fields: TransferFields, part: bytes, events: list[Event]
    ) -> None:
        assembly = self._assembly
        if assembly is None:
            assembly = self._begin_assembly(fields)
        elif fields.delivery_id not in (ABSENT, assembly.delivery_id):
            raise SessionError(NOT_ALLOWED, "a delivery begins inside another")
        if fields.aborted:
            assembly.drop()
            self._end_assembly()
            return
        assembly.settled = assembly.settled or fields.settled
        if fields.state is not None:
            assembly.state = fields.state
        assembly.add(part)
        if fields.more:
            return
        self._end_assembly()
        events.append(
            MessageReceived(
                self,
                assembly.delivery_id,
                assembly.delivery_tag,
                assembly.message_format,
                assembly.settled,
                assembly.state,
                assembly.take(),
                assembly.oversize,
            )
        )

    def _begin_assembly(self, fields: TransferFields) -> Assembly:
        if fields.delivery_id < 0 or fields.delivery_tag is None:
            raise SessionError(INVALID_FIELD, "a delivery has no id or no tag")
        self._assembly = Assembly(
            self.session.budget,
            fields.delivery_id,
            fields.delivery_tag,
            max(fields.message_format, 0),
            self.local_max_message_size,
        )
        return self._assembly

    def _end_assembly(self) -> None:
        self._assembly = None
        self.credit -= 1
        self.delivery_count = (self.delivery_count + 1) & _MASK

    def on_flow(self, flow: FlowFields, events: list[Event]) -> None:
        if self.peer_is_receiver:
            self._on_receiver_flow(flow)
        else:
            self._on_sender_flow(flow)
        if self.state is LinkState.ATTACH_RCVD:
            self._owes_flow = self._owes_flow or flow.echo
        elif self.state is not LinkState.ATTACHED:
            return
        elif flow.echo:
            self.session.write_flow(self, False)
        events.append(LinkFlow(self))

    def _on_receiver_flow(self, flow: FlowFields) -> None:
        if self.state not in (LinkState.ATTACHED, LinkState.ATTACH_RCVD):
            return
        if flow.link_credit != ABSENT:
            # Without a delivery count the peer has not seen our attach yet, so the
            # initial count applies (2.6.7); credit is counted from there.
            seen = flow.delivery_count
            on_the_way = 0 if seen < 0 else (self.delivery_count - seen) & _MASK
            if on_the_way >= _HALF:
                on_the_way = 0
            self.credit = max(0, flow.link_credit - on_the_way)
        self.drain = flow.drain

    def _on_sender_flow(self, flow: FlowFields) -> None:
        """Credit is set by us, so only the sender's delivery count is used."""
        if flow.delivery_count != ABSENT:
            used = (flow.delivery_count - self.delivery_count) & _MASK
            if 0 < used < _HALF:
                self.delivery_count = flow.delivery_count
                self.credit = max(0, self.credit - used)
        if flow.available != ABSENT:
            self.available = flow.available
        if flow.drain and self.credit == 0:
            self.drain = False


def _terminus(given: object, received: bytes, code: bytes) -> object:
    """The source or target to answer with: never null, and never an empty list.

    Python's client takes an empty terminus for a refused link. A list with one null
    field means the same to other clients.
    """
    if isinstance(given, bytes):
        return Encoded(given)
    if given is not None:
        return nested_to_wire(given)
    value, _ = decode(received, 0)
    if isinstance(value, Described):
        if value.value != []:
            return Encoded(received)
        # A coordinator is answered with a coordinator.
        code = bytes((descriptor_code(value.descriptor) & 0xFF,))
    return Encoded(b"\x00\x53" + code + b"\xc0\x02\x01\x40")
