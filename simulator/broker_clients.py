"""Clients of a simulated cluster: real clients that go to any broker.

Each has one AMQP connection at a time. When that ends, or after a while, it goes to
another broker. What it holds it settles on its link, or by lock token from wherever it
is. Transactions, bulk requests, and queues that come and go are in files of their own.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, Final
from uuid import UUID

from simulator.broker_audit import BrokerAudit, Delivery, SessionHold
from simulator.broker_bulk import BulkSteps, RangeAudit
from simulator.broker_entities import EntityAudit, EntitySteps
from simulator.broker_roaming import RoamingClient
from simulator.broker_transactions import TransactionSteps
from simulator.broker_visit import (
    RANGES,
    SESSION_IDS,
    SESSIONS,
    TAKEN,
    TEMPORARY,
    FindBroker,
    Held,
    Means,
    Troubles,
    Visit,
    check_error,
    now,
    payload_of,
    read_payload,
)
from twinbus.amqp.events import MessageReceived
from twinbus.amqp.messaging import Source
from twinbus.amqp.outcomes import ACCEPTED, MODIFIED
from twinbus.amqp.types import AmqpArray, Symbol
from twinbus.client.connection import ClientConnection
from twinbus.client.errors import LinkClosed, NotAccepted
from twinbus.client.management import ask
from twinbus.client.receiver import ClientReceiver
from twinbus.client.sender import ClientSender
from twinbus.clock import Clock
from twinbus.errors import MessageLockLost, ServerBusy, SessionLockLost

SESSION_FILTER: Final = Symbol("com.microsoft:session-filter")

_PATIENCES: Final = (5.0, 15.0, 40.0, 40.0)
"""How long a client waits for an answer; some outlast a frozen broker."""

_PAUSES: Final = (0.001, 0.01, 0.1, 0.3, 1.0)
_UUID: Final = 0x98


class BrokerClient(RoamingClient):
    """One client."""

    step_counts = (3, 30)
    away_seconds = (0.01, 1.0)

    def __init__(
        self,
        name: str,
        random: Random,
        clock: Clock,
        audits: tuple[BrokerAudit, EntityAudit, RangeAudit],
        paths: list[str],
        find: FindBroker,
        is_quiet: Callable[[], bool],
        rare_part: float,
        tell: Callable[[str], None],
        fail: Callable[[AssertionError], None],
    ) -> None:
        super().__init__(name, random, find, fail, random.choice(_PATIENCES))
        self._audit, entities, ranges = audits
        self._paths = paths
        # Nothing may be asked for that must be committed.
        self._is_quiet = is_quiet
        # So often it does what only some clients do.
        self._rare_part = rare_part
        self._tell = tell
        means = Means(
            name=name,
            random=random,
            audit=self._audit,
            tell=tell,
            patience=self._patience,
        )
        self._transactions = TransactionSteps(means, paths)
        self._entities = EntitySteps(means, entities, find)
        self._bulk = BulkSteps(means, paths, clock, ranges)
        # Each client does some of these only.
        self._rare = random.sample(
            (self._transact, self._append, self._read_ranges, self._change_entities), 2
        )
        self._held: list[Held] = []
        # So many messages were deleted at most, and are under way or wait to be taken.
        # Not the credit of the link: that is gone with its connection.
        self.open_credit = 0

    def _pause(self) -> float:
        return self._random.uniform(0, self._random.choice(_PAUSES))

    def _left(self, visit: Visit) -> None:
        self._note_lost(visit.receivers)

    def _note_lost(self, receivers: dict[str, ClientReceiver]) -> None:
        """What was deleted at the broker, and may not have arrived."""
        if TAKEN in receivers:
            del receivers[TAKEN]
            self._audit.credit_lost(self.open_credit)
            self.open_credit = 0

    async def _step(self, visit: Visit) -> None:
        choice, path = self._random.random(), self._some_path()
        try:
            if self._is_quiet():
                if path not in (SESSIONS, TAKEN, RANGES):
                    await self._receive(visit, path)
            elif choice < self._rare_part:
                await self._random.choice(self._rare)(visit)
            elif choice < 0.45:
                await self._send(visit, path)
            elif choice < 0.7 and path == SESSIONS:
                await self._use_session(visit)
            elif choice < 0.7 and path != RANGES:
                await self._receive(visit, path)
            elif choice < 0.95 and self._held:
                held = self._held.pop(0)
                path = held.delivery.path
                await self._settle(visit, held)
            elif self._held:
                held = self._random.choice(self._held)
                path = held.delivery.path
                await self._renew(visit, held.delivery)
        except LinkClosed as error:
            check_error(error, path)
            lost = {p: one for p, one in visit.receivers.items() if not one.usable}
            self._note_lost(lost)
            visit.forget_lost()

    def _some_path(self) -> str:
        is_temporary = self._random.random() < 0.1
        return self._random.choice(TEMPORARY if is_temporary else self._paths)

    # --- what only some do ----------------------------------------------------

    async def _transact(self, visit: Visit) -> None:
        await self._transactions.step(visit, self._held)

    async def _append(self, visit: Visit) -> None:
        await self._bulk.append(visit)

    async def _read_ranges(self, visit: Visit) -> None:
        for _ in range(4):
            await self._bulk.read(visit)

    async def _change_entities(self, visit: Visit) -> None:
        await self._entities.step(visit)

    # --- sending --------------------------------------------------------------

    async def _send(self, visit: Visit, path: str) -> None:
        sender = await visit.sender(path)
        count = self._random.choice((1, 1, 4, 8))
        sending = [self._send_one(visit, sender, path) for _ in range(count)]
        for error in await asyncio.gather(*sending, return_exceptions=True):
            if isinstance(error, BaseException):
                raise error

    async def _send_one(self, visit: Visit, sender: ClientSender, path: str) -> None:
        sent = self._audit.new_message(path)
        if path not in TEMPORARY:
            sent.connection = visit
        try:
            async with asyncio.timeout(self._patience):
                await sender.send(payload_of(sent))
        except NotAccepted as error:
            check_error(error, path)
            assert error.error is not None
            sent.is_refused = error.error.condition == ServerBusy.condition
            self._tell(f"{sent.number} is refused: {error.error.condition}")
        except Troubles as error:
            self._tell(f"{sent.number} is unknown: {type(error).__name__}")
            raise
        else:
            sent.is_accepted = True
            sent.accepted_at = now()
            self._tell(f"{sent.number} is accepted")

    # --- receiving ------------------------------------------------------------

    async def _receive(self, visit: Visit, path: str) -> None:
        await self._take(path, await visit.receiver(path), None)

    async def _take(
        self, path: str, receiver: ClientReceiver, hold: SessionHold | None
    ) -> None:
        asked_at, count = now(), self._random.randint(1, 4)
        if path == TAKEN:
            # What has arrived used up its credit before. What was deleted for credit
            # that is withdrawn here comes later.
            arrived = receiver.waiting_count
            under_way = max(self.open_credit - arrived, count)
            self.open_credit = under_way + arrived
        receiver.issue_credit(count)
        batch = await receiver.receive_batch(count, timeout_seconds=1.0)
        if path == TAKEN:
            self.open_credit = max(0, self.open_credit - len(batch))
        for message in batch:
            if path == TAKEN:
                number, _ = read_payload(message)
                self._tell(f"{number} is taken")
                self._audit.deleted(path, number, asked_at)
            else:
                self._note(path, receiver, message, hold)

    async def _use_session(self, visit: Visit) -> None:
        """Accept one, receive from it, or leave it to others."""
        if visit.session is None:
            session_id = self._random.choice((None, *SESSION_IDS))
            receiver = await visit.connection.receiver(
                SESSIONS,
                credit=0,
                source_filter={SESSION_FILTER: session_id},
                timeout_seconds=3.0,
            )
            visit.session = self._audit.new_hold(granted_to(receiver)), receiver
        elif self._random.random() < 0.2:
            (_, receiver), visit.session = visit.session, None
            async with asyncio.timeout(self._patience):
                await receiver.close()
        else:
            hold, receiver = visit.session
            await self._take(SESSIONS, receiver, hold)

    def _note(
        self,
        path: str,
        receiver: ClientReceiver,
        message: MessageReceived,
        hold: SessionHold | None,
    ) -> None:
        number, delivery_count = read_payload(message)
        self._tell(f"{number} is delivered, epoch {message.delivery_tag[2:5].hex()}")
        delivery = self._audit.delivered(
            path, number, message.delivery_tag, delivery_count, hold
        )
        if delivery is not None:
            held = Held(
                delivery=delivery, receiver=receiver, delivery_id=message.delivery_id
            )
            self._held.append(held)

    # --- what is held ---------------------------------------------------------

    async def _settle(self, visit: Visit, held: Held) -> None:
        delivery, at = held.delivery, held.delivery_id
        # What is abandoned in a session comes again, out of order.
        is_completed = delivery.hold is not None or self._random.random() < 0.8
        sent = self._audit.messages[delivery.number]
        asked_at = now()
        delivery.is_settling = True
        how = "complete" if is_completed else "abandon"
        try:
            async with asyncio.timeout(self._patience):
                if held.receiver.usable:
                    outcome = ACCEPTED if is_completed else MODIFIED
                    await held.receiver.settle_confirmed(at, at, outcome)
                else:
                    await _settle_by_token(visit.connection, delivery, is_completed)
        except (MessageLockLost, SessionLockLost):
            self._tell(f"{how} {delivery.number}: its lock is lost")
        except NotAccepted as error:
            check_error(error, delivery.path)
            sent.is_perhaps_completed |= is_completed
            told = error.error and error.error.condition
            self._tell(f"{how} {delivery.number} is refused: {told}")
        except Troubles as error:
            sent.is_perhaps_completed |= is_completed
            self._tell(f"{how} {delivery.number} is unknown: {type(error).__name__}")
            raise
        else:
            self._audit.settled(delivery, asked_at, is_completed=is_completed)
            self._tell(f"{how} {delivery.number} is confirmed")

    async def _renew(self, visit: Visit, delivery: Delivery) -> None:
        if delivery.hold is not None:
            return  # it ends with its session
        asked_at = now()
        async with asyncio.timeout(self._patience):
            answer = await ask(
                visit.connection,
                delivery.path,
                "renew-lock",
                {"lock-tokens": _tokens(delivery)},
            )
        ends = answer["expirations"]
        assert isinstance(ends, AmqpArray)
        (until,) = ends.items
        assert isinstance(until, int)
        self._tell(f"the lock of {delivery.number} is renewed")
        self._audit.renewed(delivery, asked_at, until)


async def _settle_by_token(
    connection: ClientConnection, delivery: Delivery, is_completed: bool
) -> None:
    status = "completed" if is_completed else "abandoned"
    request: dict[object, object] = {
        "disposition-status": status,
        "lock-tokens": _tokens(delivery),
        **_session(delivery),
    }
    await ask(connection, delivery.path, "update-disposition", request)


def _tokens(delivery: Delivery) -> Any:
    return AmqpArray(_UUID, [UUID(bytes_le=delivery.token)])


def _session(delivery: Delivery) -> dict[object, object]:
    hold = delivery.hold
    return {} if hold is None else {"session-id": hold.session_id}


def granted_to(receiver: ClientReceiver) -> str:
    """The id of the session that a link was granted."""
    source = receiver.source
    assert isinstance(source, Source)
    assert source.filter is not None
    return str(source.filter[SESSION_FILTER])
