"""An AMQP session: windows, delivery ids, and the links that share them.

It is not a Service Bus message session. Frames that exceed the peer's window wait in
`held` until it opens. Our own window is restored when half of it is used. `unsettled`
maps the id of each delivery that we sent and that is not settled yet to the shell's
context; the shell removes entries with `pop_unsettled` when it settles.
"""

from collections import deque
from typing import Final, final

from twinbus.amqp.assembly import Budget
from twinbus.amqp.composite import encode_composite
from twinbus.amqp.delivery_ids import SerialIds
from twinbus.amqp.errors import (
    HANDLE_IN_USE,
    INVALID_FIELD,
    NOT_ALLOWED,
    RESOURCE_LIMIT_EXCEEDED,
    UNATTACHED_HANDLE,
    AmqpError,
    FramingError,
    LocalError,
    ProtocolError,
    SessionError,
)
from twinbus.amqp.events import (
    DispositionReceived,
    Event,
    LinkAttached,
    SessionEnded,
    SessionWindowOpened,
)
from twinbus.amqp.fastpath import (
    ABSENT,
    DispositionFields,
    FlowFields,
    TransferFields,
    decode_disposition,
    decode_flow,
    decode_transfer,
    encode_disposition,
    encode_flow,
)
from twinbus.amqp.framing import Outbox
from twinbus.amqp.link import Link
from twinbus.amqp.performatives import (
    DETACH,
    SENDER_MIXED,
    Attach,
    Begin,
    Detach,
    End,
    decode_attach,
    decode_performative,
    error_of,
)
from twinbus.amqp.state import SESSION, SessionState, SessionStep

_MASK: Final = 0xFFFFFFFF
_HALF: Final = 0x80000000

# The peer's window limits what we send; our own outgoing window does not.
_OUTGOING_WINDOW: Final = 0xFFFFFFFF


@final
class AmqpSession:
    def __init__(
        self,
        channel: int,
        outbox: Outbox,
        budget: Budget,
        incoming_window: int,
        handle_max: int,
    ) -> None:
        # Our channel and the peer's; ABSENT until the peer's begin has arrived.
        self.channel: int = channel
        self.remote_channel: int = ABSENT
        self.outbox: Outbox = outbox
        self.budget: Budget = budget
        self.state: SessionState = SessionState.UNMAPPED
        # False after the first end, ours or the peer's: nothing more is written.
        self.live: bool = True
        # All links that are not fully detached, by our handle.
        self.links: dict[int, Link] = {}
        self.unsettled: dict[int, object] = {}
        self._unsettled_ids: SerialIds = SerialIds(self.unsettled)
        self.next_delivery_id: int = 0
        self.next_outgoing_id: int = 0
        self.remote_incoming_window: int = 0
        # Transfers that wait for the peer's window, in the order of sending.
        self.held: deque[tuple[Link, bytes]] = deque()
        # How many each link has, so that detaching a link without any needs no scan.
        self._held_counts: dict[Link, int] = {}
        # For the shell: any object that it wants to keep with the session.
        self.context: object = None
        self._next_incoming_id: int = 0
        self._incoming_window: int = incoming_window
        self._incoming_left: int = incoming_window
        # The engine ended the session, and has reported it to the shell already.
        self._end_told: bool = False
        self._handle_max: int = handle_max
        self._peer_handle_max: int = _MASK
        # No handle below this one is free.
        self._free_mark: int = 0
        self._by_remote_handle: dict[int, Link] = {}
        # Our attaches that are not answered yet, by name and the peer's role.
        self._requested: dict[tuple[str, bool], Link] = {}
        self._transfer: TransferFields = TransferFields()
        self._disposition: DispositionFields = DispositionFields()
        self._flow: FlowFields = FlowFields()
        self._out_flow: FlowFields = FlowFields()

    def begin(self) -> None:
        """Send our begin, as the first step or as the answer to the peer's."""
        answers = self.state is SessionState.BEGIN_RCVD
        self.state = SESSION[(self.state, SessionStep.SEND_BEGIN)]
        self.write(
            encode_composite(
                Begin(
                    remote_channel=self.remote_channel if answers else None,
                    next_outgoing_id=self.next_outgoing_id,
                    incoming_window=self._incoming_window,
                    outgoing_window=_OUTGOING_WINDOW,
                    handle_max=self._handle_max,
                )
            )
        )

    def on_begin(self, begin: Begin, remote_channel: int) -> None:
        self.state = SESSION[(self.state, SessionStep.RECEIVE_BEGIN)]
        self.remote_channel = remote_channel
        self._next_incoming_id = begin.next_outgoing_id
        self.remote_incoming_window = begin.incoming_window
        self._peer_handle_max = begin.handle_max

    def end(self, error: AmqpError | None = None) -> None:
        """End the session; frames for it are dropped from now on."""
        following = SESSION.get((self.state, SessionStep.SEND_END))
        if following is None or not self.live:
            return
        self.state = following
        self.write(encode_composite(End(error=error)))
        self.stop()

    def fail(self, error: AmqpError, events: list[Event]) -> None:
        """End the session because the peer violated the protocol."""
        self.end(error)
        self._end_told = True
        events.append(SessionEnded(self, error))

    def on_end(self, end: End, events: list[Event]) -> None:
        self.state = SESSION[(self.state, SessionStep.RECEIVE_END)]
        if self.state is SessionState.END_RCVD:
            self.end()
        if not self._end_told:
            events.append(SessionEnded(self, error_of(end.error)))

    def stop(self) -> None:
        """Write nothing more; drop credit and incomplete deliveries."""
        for _, frame in self.held:
            self.budget.release(len(frame))
        self.held.clear()
        self._held_counts.clear()
        for link in self.links.values():
            link.stop()
        self.live = False

    def attach_sender(
        self,
        name: str,
        source: object,
        target: object,
        snd_settle_mode: int = SENDER_MIXED,
        rcv_settle_mode: int = 0,
        properties: dict[object, object] | None = None,
        initial_delivery_count: int = 0,
    ) -> Link:
        """Attach a link on which we send; LinkAttached confirms it."""
        link = self._request(name, True)
        link.delivery_count = initial_delivery_count
        link.request(
            Attach(
                name=name,
                handle=link.handle,
                role=False,
                snd_settle_mode=snd_settle_mode,
                rcv_settle_mode=rcv_settle_mode,
                source=source,
                target=target,
                initial_delivery_count=initial_delivery_count,
                properties=properties,
            )
        )
        return link

    def attach_receiver(
        self,
        name: str,
        source: object,
        target: object,
        snd_settle_mode: int = SENDER_MIXED,
        rcv_settle_mode: int = 0,
        properties: dict[object, object] | None = None,
        max_message_size: int = 0,
    ) -> Link:
        """Attach a link on which we receive; LinkAttached confirms it."""
        link = self._request(name, False)
        link.request(
            Attach(
                name=name,
                handle=link.handle,
                role=True,
                snd_settle_mode=snd_settle_mode,
                rcv_settle_mode=rcv_settle_mode,
                source=source,
                target=target,
                max_message_size=max_message_size or None,
                properties=properties,
            )
        )
        return link

    def _request(self, name: str, peer_is_receiver: bool) -> Link:
        if not self.live:
            raise LocalError("the session has ended")
        if (name, peer_is_receiver) in self._requested:
            raise LocalError(f"link {name} is being attached already")
        if self._free_handle() > self._peer_handle_max:
            raise LocalError(f"the peer allows handles up to {self._peer_handle_max}")
        link = self._new_link(name, peer_is_receiver)
        self._requested[(name, peer_is_receiver)] = link
        return link

    def _new_link(self, name: str, peer_is_receiver: bool) -> Link:
        handle = self._free_handle()
        link = Link(self, name, handle, peer_is_receiver)
        self.links[handle] = link
        self.budget.link_count += 1
        return link

    def _free_handle(self) -> int:
        """The lowest free handle. All handles below the mark are in use, so that an
        attach does not search from 0."""
        while self._free_mark in self.links:
            self._free_mark += 1
        return self._free_mark

    def forget(self, link: Link) -> None:
        """Both sides have detached the link; its handles are free again."""
        if self.links.get(link.handle) is link:
            del self.links[link.handle]
            self._free_mark = min(self._free_mark, link.handle)
            self.budget.link_count -= 1
            self.budget.release(link.held_bytes)
        self._by_remote_handle.pop(link.remote_handle, None)

    def on_attach(self, body: bytes, events: list[Event]) -> None:
        attach, raw_source, raw_target = decode_attach(body)
        if attach.handle > self._handle_max:
            raise FramingError(f"handle {attach.handle} is above {self._handle_max}")
        if attach.handle in self._by_remote_handle:
            raise SessionError(HANDLE_IN_USE, f"handle {attach.handle} is in use")
        link = self._requested.pop((attach.name, attach.role), None)
        if link is None:
            self._on_new_link(attach, raw_source, raw_target, len(body), events)
            return
        self._by_remote_handle[attach.handle] = link
        link.on_attach(attach, raw_source, raw_target)
        link.on_confirmed(events)

    def _on_new_link(
        self,
        attach: Attach,
        raw_source: bytes,
        raw_target: bytes,
        size_bytes: int,
        events: list[Event],
    ) -> None:
        # If the peer has more links than it allows us handles, we cannot answer.
        if self._free_handle() > self._peer_handle_max:
            raise SessionError(NOT_ALLOWED, "the peer's handle-max is used up")
        link = self._new_link(attach.name, attach.role)
        link.hold_attach(size_bytes)
        self._by_remote_handle[attach.handle] = link
        link.on_attach(attach, raw_source, raw_target)
        limit = self.budget.link_limit
        if self.budget.link_count > limit:
            text = f"a connection may have {limit} links"
            if self.budget.link_count > 2 * limit:
                # A refused link is kept until the peer detaches it: a peer that never
                # does would fill our memory.
                raise ProtocolError(RESOURCE_LIMIT_EXCEEDED, text)
            link.refuse(AmqpError(RESOURCE_LIMIT_EXCEEDED, text))
        else:
            events.append(LinkAttached(link))

    def on_detach(self, body: bytes, events: list[Event]) -> None:
        detach = decode_performative(DETACH, body)
        assert isinstance(detach, Detach)
        link = self._by_remote_handle.get(detach.handle)
        if link is not None:
            # A detach of an unknown handle is not answered: Python's client closes the
            # connection if it gets a detach that it does not expect.
            link.on_detach(detach, events)

    def on_transfer(self, buf: bytes, at: int, end: int, events: list[Event]) -> None:
        """Process a transfer frame. Its implied id is not checked: Python's client
        counts messages where it should count frames."""
        fields = self._transfer
        at = decode_transfer(buf, at, end, fields)
        self._next_incoming_id = (self._next_incoming_id + 1) & _MASK
        self._incoming_left -= 1
        if self._incoming_left * 2 < self._incoming_window:
            self.write_flow(None, False)
        link = self._by_remote_handle.get(fields.handle)
        if link is None:
            raise SessionError(
                UNATTACHED_HANDLE, f"handle {fields.handle} is not attached"
            )
        link.on_transfer(fields, buf, at, end, events)

    def window_open(self) -> bool:
        """True if a frame would be sent at once."""
        return self.remote_incoming_window > 0 and not self.held

    def write_transfers(self, link: Link, frames: list[bytes]) -> None:
        for frame in frames:
            if self.remote_incoming_window > 0 and not self.held:
                self._write_transfer(frame)
            else:
                # The limit is not enforced: these are our own transfers.
                self.budget.held_bytes += len(frame)
                self.held.append((link, frame))
                self._held_counts[link] = self._held_counts.get(link, 0) + 1

    def _write_transfer(self, frame: bytes) -> None:
        self.outbox.pieces.append(frame)
        self.remote_incoming_window -= 1
        self.next_outgoing_id = (self.next_outgoing_id + 1) & _MASK

    def drop_held(self, link: Link) -> None:
        """Drop the waiting frames of a link that is being detached.

        The detach cannot wait for the peer's window, and no frame of the link may
        follow it.
        """
        if self._held_counts.pop(link, 0):
            held, self.held = self.held, deque()
            for item in held:
                if item[0] is link:
                    self.budget.release(len(item[1]))
                else:
                    self.held.append(item)

    def send_disposition(
        self,
        role_is_receiver: bool,
        first: int,
        last: int,
        settled: bool,
        state: bytes,
    ) -> None:
        """Send the state of deliveries; `role_is_receiver` is our role."""
        if self.live:
            self.outbox.pieces.append(
                encode_disposition(
                    self.channel, role_is_receiver, first, last, settled, state
                )
            )

    def on_disposition(
        self, buf: bytes, at: int, end: int, events: list[Event]
    ) -> None:
        fields = self._disposition
        decode_disposition(buf, at, end, fields)
        if (fields.last - fields.first) & _MASK >= _HALF:
            raise SessionError(INVALID_FIELD, "a disposition ends before it starts")
        events.append(
            DispositionReceived(
                self,
                fields.role_is_receiver,
                fields.first,
                fields.last,
                fields.settled,
                fields.state,
            )
        )

    def find_unsettled(self, first: int, last: int) -> list[int]:
        """Ids from `first` to `last` that are unsettled, in order."""
        return self._unsettled_ids.find(first, last, self.next_delivery_id)

    def pop_unsettled(self, first: int, last: int) -> list[tuple[int, object]]:
        """Remove the unsettled deliveries of a range; return their ids and contexts."""
        unsettled = self.unsettled
        if first == last:
            return [(first, unsettled.pop(first))] if first in unsettled else []
        found = self.find_unsettled(first, last)
        return [(delivery_id, unsettled.pop(delivery_id)) for delivery_id in found]

    def on_flow(self, buf: bytes, at: int, end: int, events: list[Event]) -> None:
        flow = self._flow
        decode_flow(buf, at, end, flow)
        self._next_incoming_id = flow.next_outgoing_id
        self._on_window(flow, events)
        if flow.handle != ABSENT:
            link = self._by_remote_handle.get(flow.handle)
            if link is not None:
                link.on_flow(flow, events)
        elif flow.echo:
            self.write_flow(None, False)

    def _on_window(self, flow: FlowFields, events: list[Event]) -> None:
        # Without an id the peer has not seen our begin: it counts from our first id.
        seen = max(flow.next_incoming_id, 0)
        on_the_way = (self.next_outgoing_id - seen) & _MASK
        if on_the_way >= _HALF:
            on_the_way = 0
        was_open = self.window_open()
        self.remote_incoming_window = max(0, flow.incoming_window - on_the_way)
        while self.held and self.remote_incoming_window > 0:
            link, frame = self.held.popleft()
            self.budget.release(len(frame))
            self._write_transfer(frame)
            self._held_counts[link] -= 1
            if self._held_counts[link] == 0:
                del self._held_counts[link]
        if not was_open and self.window_open():
            events.append(SessionWindowOpened(self))

    def write_flow(self, link: Link | None, drain: bool) -> None:
        """Tell the peer our window and, with a link, its credit."""
        if not self.live:
            return
        flow = self._out_flow
        flow.next_incoming_id = self._next_incoming_id
        flow.incoming_window = self._incoming_left = self._incoming_window
        flow.next_outgoing_id = self.next_outgoing_id
        flow.outgoing_window = _OUTGOING_WINDOW
        flow.handle = ABSENT
        flow.drain = drain
        if link is not None:
            flow.handle = link.handle
            flow.delivery_count = link.delivery_count
            flow.link_credit = max(link.credit, 0)
        self.outbox.pieces.append(encode_flow(self.channel, flow))

    def write(self, body: bytes) -> None:
        if self.live:
            self.outbox.write(self.channel, body)
