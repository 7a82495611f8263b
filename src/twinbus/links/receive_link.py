"""A link on which a client receives from an entity, or from one of its sessions.

It delivers messages while the client has credit, the AMQP session's window is open and
the client reads its socket. It applies the client's dispositions, and confirms each
after the commit with a settled disposition of the same outcome, as the SDKs require. In
receive-and-delete mode messages are sent settled, after their removal is durable.

A link to a partitioned entity has one of these for each fragment, and a pool that they
share (`merged_receive_link.py`).
"""

from abc import abstractmethod
from collections import OrderedDict
from typing import Final, final

from mypy_extensions import mypyc_attr

from twinbus.amqp.events import DispositionReceived
from twinbus.amqp.link import Link
from twinbus.amqp.outcomes import ACCEPTED, Received, encode_rejected
from twinbus.amqp.session import AmqpSession
from twinbus.broker import operation_log
from twinbus.broker.commit_listener import CommitListener
from twinbus.broker.fragment import Fragment
from twinbus.broker.held_session import HeldSession
from twinbus.broker.home import commit_soon
from twinbus.broker.message import Message
from twinbus.broker.message_lock import RESERVED, MessageLock
from twinbus.broker.receiver import Receiver
from twinbus.broker.settlement import check_not_enlisted, release
from twinbus.broker.transaction import Transaction
from twinbus.encoding.outgoing import DeliveryEncoder
from twinbus.errors import MessageLockLost, ServiceBusError, SessionLockLost
from twinbus.limits import UNSETTLED_PER_SESSION
from twinbus.links.outcomes import (
    STATE_OF,
    is_terminal,
    settle,
    settled_in,
    settlement_of,
)
from twinbus.links.output import Output
from twinbus.links.owed_deliveries import OwedDeliveries
from twinbus.links.refusal import amqp_error, log_refusal
from twinbus.links.remote_receiver import RemoteReceiver
from twinbus.links.transactional_work import TransactionalSettlement

_OUTCOME_BITS: Final = 3

_UNSETTLED_SLACK: Final = 1_024
"""After so many more unsettled deliveries, those with ended locks are removed."""


@mypyc_attr(allow_interpreted_subclasses=True)
class ReceivePool:
    """What the receivers of several fragments share: the credit of their link, and what
    it is owed."""

    def __init__(self, link: Link) -> None:
        self.owed: OwedDeliveries = OwedDeliveries(link)

    @abstractmethod
    def promised_to_others(self, receiver: "ReceiveLink") -> int:
        """Messages that the link will get from other fragments, after a commit."""

    @abstractmethod
    def served(self, receiver: "ReceiveLink") -> None:
        """One fragment has no more messages for the link."""

    @abstractmethod
    def settled_some(self) -> None:
        """There may be room for more unsettled deliveries."""


@final
class ReceiveLink(Receiver):
    """Delivers one fragment's messages to one client."""

    def __init__(
        self,
        link: Link,
        fragment: Fragment,
        actor: int,
        peek_lock: bool,
        output: Output,
        session: HeldSession | None = None,
        pool: ReceivePool | None = None,
        reserves: bool = False,
    ) -> None:
        """`reserves`: another broker hands the messages out. Their locks begin when it
        says so."""
        super().__init__(actor, peek_lock)
        if session is not None:
            self.session = session
            session.receiver = self
        self._link: Link = link
        # The path that authorization is checked for.
        self.path: str = fragment.settings.path
        self._fragment: Fragment = fragment
        self._output: Output = output
        # Set if the link delivers messages of other fragments, too.
        self._pool: ReceivePool | None = pool
        self._owed: OwedDeliveries = OwedDeliveries(link) if pool is None else pool.owed
        # The fragment had nothing left since the client asked for a drain.
        self.is_drained: bool = False
        self._confirmations: Confirmations = Confirmations(link.session, output)
        # At this number of unsettled deliveries of the AMQP session, those whose locks
        # have ended are removed.
        self._sweep_at: int = _UNSETTLED_SLACK
        # The client has as many unsettled deliveries as it may.
        self._is_stalled: bool = False
        self._reserves: bool = reserves
        # The AMQP session may have unsettled deliveries of this link.
        self._has_delivered: bool = False
        # It has delivered nothing since the last drain.
        self.is_empty_handed: bool = True
        fragment.home.join(fragment, self)

    # --- delivering -----------------------------------------------------------

    def capacity(self) -> int:
        session = self._link.session
        if not self._output.is_writable:
            return 0
        if not session.window_open():
            waiting_links(session).add(self)
            return 0
        room = UNSETTLED_PER_SESSION - len(session.unsettled)
        if room <= 0:
            self._is_stalled = True
            return 0
        capacity = min(self._link.credit, session.remote_incoming_window, room)
        if self._pool is not None and not self.peek_lock:
            capacity -= self._pool.promised_to_others(self)
        return capacity

    def offer_capacity(self) -> None:
        """Credit, window or socket allow more messages than before."""
        if self._owed.pay():
            self._output.mark()
        self._fragment.home.offer_capacity(self._fragment, self)

    def is_serving(self) -> bool:
        """The store of the fragment is not away."""
        return self._fragment.home.is_serving

    def deliver_locked(self, locks: list[MessageLock]) -> None:
        link = self._link
        visible_base = self._fragment.visible_base
        base = self._fragment.base
        encoder = DeliveryEncoder(locks[0].ends_at())
        self._has_delivered = True
        self.is_empty_handed = False
        for lock in locks:
            message = lock.message
            lock.holder = self
            number = visible_base + message.row_id - base
            payload = encoder.encode(message, number, lock.token)
            link.send(payload, lock.token, False, lock)
        if self._reserves:
            for lock in locks:
                self._fragment.reserve(lock)
        self._fragment.delivered(locks)
        if len(link.session.unsettled) > self._sweep_at:
            self._forget_lost()
        self._output.mark()

    def _forget_lost(self) -> None:
        """Remove deliveries whose locks have ended. A client that never settles would
        keep them all in memory. If it settles one of them later, that is refused as for
        any unknown id."""
        unsettled = self._link.session.unsettled
        lost = [
            delivery_id
            for delivery_id, lock in unsettled.items()
            if isinstance(lock, MessageLock) and not _is_held(lock)
        ]
        for delivery_id in lost:
            del unsettled[delivery_id]
        self._sweep_at = 2 * len(unsettled) + _UNSETTLED_SLACK

    def has_lock(self, lock: MessageLock) -> bool:
        return self._fragment.locks.get(lock.message.row_id) is lock

    def deliver_removed(self, messages: list[Message]) -> None:
        encoder, owed = DeliveryEncoder(0), self._owed
        self.is_empty_handed = False
        for message in messages:
            number = self._fragment.sequence_number(message)
            owed.send(encoder.encode(message, number))
        self._output.mark()

    def served(self) -> None:
        if self._pool is not None:
            self._pool.served(self)
        elif self._link.drain:
            if self._link.credit > 0 and self.is_empty_handed:
                self.log_empty()
            self.is_empty_handed = True
            self._link.drained()
            self._output.mark()

    def log_empty(self) -> None:
        """A receive came back without a message."""
        log = self._fragment.home.changes.log
        base = self._fragment.base
        log.event(operation_log.RECEIVE_EMPTY, self.actor, base, 0)

    # --- settling -------------------------------------------------------------

    def settle(
        self,
        delivery_id: int,
        lock: MessageLock,
        state: object,
        settled: bool,
        now: int,
    ) -> None:
        """Apply the client's outcome to one delivery."""
        home = self._fragment.home
        try:
            outcome = settle(self._fragment, lock, state, self.actor, now, home.changes)
        except ServiceBusError as error:
            log_refusal(self._fragment, self.actor, error)
            if not settled:
                self._confirmations.refuse(delivery_id, delivery_id, error)
            return
        if not settled:
            self._confirmations.note(home, delivery_id << _OUTCOME_BITS | outcome)

    def settle_in(
        self,
        transaction: Transaction,
        delivery_id: int,
        lock: MessageLock,
        outcome: object,
        settled: bool,
    ) -> bytes:
        """Add a settlement to a transaction; return the state to answer with.

        Raises NotAllowed, QuotaExceeded, ServerBusy, and as `settlement_of`.
        """
        check_not_enlisted(self._fragment, lock)
        settlement = settlement_of(outcome, self.path)
        work = TransactionalSettlement(self._fragment, lock, settlement, self.actor)
        if not settled:
            work.ends(self._link.session, delivery_id)
        transaction.enlist_lock(lock, work)
        return settled_in(transaction.txn_id, settlement.kind)

    def settled_some(self) -> None:
        """Settlements were applied: have them committed."""
        commit_soon(self._fragment.home)
        if self._pool is not None:
            self._pool.settled_some()
        else:
            self.go_on()

    def go_on(self) -> None:
        """Deliver again, if the client had too many unsettled deliveries."""
        if self._is_stalled:
            self._is_stalled = False
            self.offer_capacity()

    def tick(self, swept: set[AmqpSession]) -> None:
        """Locks may have ended without being settled. A thousand links of one AMQP
        session may wait for that; `swept` makes sure that it is searched once."""
        if self._is_stalled:
            self._is_stalled = False
            if self._link.session not in swept:
                swept.add(self._link.session)
                self._forget_lost()
            self.offer_capacity()

    # --- ending ---------------------------------------------------------------

    def detach(self, error: ServiceBusError) -> None:
        """The entity was deleted, or can no longer be received from."""
        self._link.detach(amqp_error(error))
        self.close()
        self._output.mark()

    def session_lost(self) -> None:
        session = self.session
        assert session is not None
        self.detach(SessionLockLost.named(session.session_id, entity_path=self.path))

    def take(self, lock: MessageLock, now: int) -> None:
        """A reserved message was handed out: its lock begins."""
        if lock.locked_until == RESERVED and self.has_lock(lock):
            self._fragment.renew(lock, now)

    def give_back_reserved(self) -> None:
        """What was reserved and not handed out is ready again."""
        if not self._reserves:
            return
        home = self._fragment.home
        for lock in list(self._link.session.unsettled.values()):
            if (
                isinstance(lock, MessageLock)
                and lock.holder is self
                and lock.locked_until == RESERVED
                and self.has_lock(lock)
            ):
                # The time does not matter: the lock has no end.
                release(self._fragment, lock, self.actor, 0, home.changes)
        commit_soon(home)

    def close(self) -> None:
        """The link was closed. Its locks stay until they run out or are settled, those
        of a session until its end."""
        self.give_back_reserved()
        waiting_links(self._link.session).discard(self)
        self._fragment.home.leave(self._fragment, self)

    def forget_deliveries(self) -> None:
        """The client detached the link. A later disposition settles nothing: the client
        does not wait for its answer, and settles by token."""
        self.give_back_reserved()
        if self._has_delivered:
            forget_deliveries(self._link.session, {self})

    def receivers(self) -> "set[ReceiveLink]":
        """Those who may hold locks of the link's deliveries: this alone."""
        return {self}

    @property
    def amqp_session(self) -> AmqpSession:
        return self._link.session


def forget_deliveries(session: AmqpSession, receivers: set[ReceiveLink]) -> None:
    """Remove the unsettled deliveries of these links. It is done for all links at once,
    because it reads all unsettled deliveries of the AMQP session."""
    unsettled = session.unsettled
    theirs = [
        delivery_id
        for delivery_id, lock in unsettled.items()
        if isinstance(lock, MessageLock) and lock.holder in receivers
    ]
    for delivery_id in theirs:
        del unsettled[delivery_id]


@final
class WaitingLinks:
    """Links of an AMQP session that wait for its window to open.

    Then they continue one after the other, while it is open: a client that opens it for
    one frame, again and again, must not cause a thousand links to be asked each time.
    """

    def __init__(self) -> None:
        self._links: OrderedDict[ReceiveLink, None] = OrderedDict()

    def add(self, link: ReceiveLink) -> None:
        self._links[link] = None

    def discard(self, link: ReceiveLink) -> None:
        self._links.pop(link, None)

    def go_on(self, session: AmqpSession) -> None:
        """The window of the AMQP session has opened."""
        while self._links and session.window_open():
            link, _ = self._links.popitem(last=False)
            link.offer_capacity()


def waiting_links(session: AmqpSession) -> WaitingLinks:
    """The waiting links of the AMQP session; they are its context."""
    waiting = session.context
    if not isinstance(waiting, WaitingLinks):
        waiting = WaitingLinks()
        session.context = waiting
    return waiting


@final
class Confirmations(CommitListener):
    """Tells a client that its settlements are durable."""

    def __init__(self, session: AmqpSession, output: Output) -> None:
        super().__init__()
        self._session: AmqpSession = session
        self._output: Output = output

    def committed(self, items: list[int]) -> None:
        """Send one frame for each run of ids with the same outcome."""
        step = 1 << _OUTCOME_BITS
        first = last = items[0]
        for item in items:
            if item != last + step and item != last:
                self._confirm(first, last)
                first = item
            last = item
        self._confirm(first, last)
        self._output.mark()

    def _confirm(self, first: int, last: int) -> None:
        state = STATE_OF[first & ((1 << _OUTCOME_BITS) - 1)]
        self._session.send_disposition(
            False, first >> _OUTCOME_BITS, last >> _OUTCOME_BITS, True, state
        )

    def failed(self, items: list[int], error: ServiceBusError) -> None:
        for item in items:
            delivery_id = item >> _OUTCOME_BITS
            self.refuse(delivery_id, delivery_id, error)

    def refuse(self, first: int, last: int, error: ServiceBusError) -> None:
        state = encode_rejected(amqp_error(error))
        self._session.send_disposition(False, first, last, True, state)
        self._output.mark()


def on_disposition(event: DispositionReceived, output: Output, now: int) -> None:
    """A client settles deliveries of one or several links of an AMQP session."""
    if not event.peer_is_receiver or not is_terminal(event.state, event.settled):
        if event.peer_is_receiver and isinstance(event.state, Received):
            _take(event, now)
        return
    session = event.session
    found = session.pop_unsettled(event.first, event.last)
    holder: ReceiveLink | None = None
    remote: RemoteReceiver | None = None
    for delivery_id, lock in found:
        if not isinstance(lock, MessageLock):
            if isinstance(lock, RemoteReceiver):
                if remote is not None and remote is not lock:
                    remote.settled_some()
                remote = lock
                remote.settle(delivery_id, event.state, event.settled)
                continue
            confirm_answer(delivery_id, event)
            output.mark()
            continue
        if holder is not lock.holder:
            # The fragments of the two may be in different stores.
            if holder is not None:
                holder.settled_some()
            holder = lock.holder  # type: ignore[assignment]
        assert holder is not None
        holder.settle(delivery_id, lock, event.state, event.settled, now)
    if holder is not None:
        holder.settled_some()
    if remote is not None:
        remote.settled_some()
    if not event.settled and len(found) <= (event.last - event.first) & 0xFFFFFFFF:
        known = [delivery_id for delivery_id, _ in found]
        refuse_unknown(event, known, Confirmations(session, output))


def _take(event: DispositionReceived, now: int) -> None:
    """Another broker has handed out messages that were reserved for it."""
    session = event.session
    for delivery_id in session.find_unsettled(event.first, event.last):
        lock = session.unsettled[delivery_id]
        if isinstance(lock, MessageLock) and isinstance(lock.holder, ReceiveLink):
            lock.holder.take(lock, now)


def refuse_unknown(
    event: DispositionReceived, known: list[int], confirmations: Confirmations
) -> None:
    """Every id must be answered: ids without a delivery have lost their lock."""
    error = MessageLockLost()
    mask = 0xFFFFFFFF
    start = event.first
    for delivery_id in [*known, (event.last + 1) & mask]:
        if delivery_id != start:
            confirmations.refuse(start, (delivery_id - 1) & mask, error)
        start = (delivery_id + 1) & mask


def confirm_answer(delivery_id: int, event: DispositionReceived) -> None:
    """A node sent its answer unsettled: any outcome of the client ends the delivery."""
    if not event.settled:
        event.session.send_disposition(False, delivery_id, delivery_id, True, ACCEPTED)


def _is_held(lock: MessageLock) -> bool:
    holder = lock.holder
    return isinstance(holder, ReceiveLink) and holder.has_lock(lock)
