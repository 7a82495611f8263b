"""Transactions on links: answered at once, applied by the commit or rolled back."""

import pytest
from unit.amqp.endpoints import of_type

from twinbus.amqp.composite import encode_composite, to_described
from twinbus.amqp.errors import AmqpError
from twinbus.amqp.events import DispositionReceived
from twinbus.amqp.messaging import AmqpValue, Message, Properties, encode_message
from twinbus.amqp.outcomes import (
    ACCEPTED,
    ACCEPTED_OUTCOME,
    Accepted,
    Modified,
    Rejected,
    Released,
)
from twinbus.amqp.transactions import (
    Declare,
    Declared,
    Discharge,
    TransactionalState,
)
from twinbus.amqp.types import Symbol
from twinbus.broker import schedule
from twinbus.broker.message import Annex
from twinbus.broker.message_lock import MessageLock
from twinbus.broker.transaction import Transaction, TransactionLimits
from twinbus.encoding.incoming import read_message
from twinbus.errors import InternalError, NotAllowed, ServerBusy, ServiceBusError
from twinbus.limits import PROPERTIES_BYTES
from twinbus.links.coordinator import Coordinator
from twinbus.links.outcomes import COMPLETE, settled_in
from twinbus.links.remote_receiver import RemoteReceiver
from twinbus.links.transactional_work import (
    TransactionalCancel,
    TransactionalSchedule,
)

from .world import BODY, NOW, World

UNKNOWN = "amqp:transaction:unknown-id"
ROLLBACK = "amqp:transaction:rollback"
TIMEOUT = "amqp:transaction:timeout"


class Client:
    """A client with a control link, a sender and a receiver."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.control = world.controller()
        self.sender, _ = world.sender()

    def ask(self, body: object) -> list[object]:
        """The answers to a request to the coordinator."""
        self.control.send(request(body), b"tag", False)
        return [
            event.state for event in of_type(self.world.pump(), DispositionReceived)
        ]

    def answers(self) -> list[DispositionReceived]:
        return of_type(self.world.pump(), DispositionReceived)

    def declare(self) -> bytes:
        [state] = self.ask(Declare())
        assert isinstance(state, Declared)
        return state.txn_id

    def commit(self, txn_id: bytes) -> object:
        """What a commit is answered with, besides the deliveries that it settles."""
        answers = self.ask(Discharge(txn_id=txn_id, fail=False))
        self.world.home.commit()
        answers += [event.state for event in self.answers() if event.peer_is_receiver]
        [answer] = answers
        return answer

    def roll_back(self, txn_id: bytes) -> None:
        assert self.ask(Discharge(txn_id=txn_id, fail=True)) == [Accepted()]

    def send(self, txn_id: bytes, payload: bytes = BODY) -> object:
        state = encode_composite(TransactionalState(txn_id=txn_id))
        self.sender.send(payload, b"tag", False, state=state)
        [event] = self.answers()
        assert event.settled
        return event.state

    def settle(
        self, at: int, txn_id: bytes, outcome: object = ACCEPTED_OUTCOME
    ) -> DispositionReceived:
        state = encode_composite(TransactionalState(txn_id=txn_id, outcome=outcome))
        self.world.session.send_disposition(True, at, at, False, state)
        [event] = self.answers()
        return event


def request(body: object) -> bytes:
    return encode_message(Message(body=AmqpValue(to_described(body))))


def condition(state: object) -> str:
    assert isinstance(state, Rejected) and isinstance(state.error, AmqpError), state
    return state.error.condition


def text(state: object) -> str:
    assert isinstance(state, Rejected) and isinstance(state.error, AmqpError), state
    return state.error.description or ""


def received(world: World, count: int = 1) -> list[int]:
    """Delivery ids of messages that the client holds."""
    world.home.enqueue(count)
    link, _ = world.receiver()
    link.issue_credit(count)
    return [event.delivery_id for event in world.deliveries()]


def only_lock(world: World) -> MessageLock:
    [lock] = world.fragment.locks.values()
    return lock


@pytest.fixture
def client(world: World) -> Client:
    return Client(world)


def test_sent_messages_appear_with_the_commit(world: World, client: Client) -> None:
    txn_id = client.declare()
    accepted = TransactionalState(txn_id=txn_id, outcome=Accepted())
    assert client.send(txn_id) == client.send(txn_id) == accepted
    assert world.fragment.active_count == 0
    assert client.commit(txn_id) == Accepted()
    assert world.fragment.active_count == 2


def test_commit_is_answered_when_it_is_durable(world: World, client: Client) -> None:
    txn_id = client.declare()
    client.send(txn_id)
    assert client.ask(Discharge(txn_id=txn_id)) == []
    world.home.commit()
    assert [state for _, _, state in world.verdicts()] == [Accepted()]


def test_rolled_back_messages_never_were(world: World, client: Client) -> None:
    txn_id = client.declare()
    client.send(txn_id)
    client.roll_back(txn_id)
    world.home.commit()
    assert world.fragment.active_count == 0
    assert world.fragment.next_sequence == 1


def test_empty_transaction_is_committed_at_once(client: Client) -> None:
    txn_id = client.declare()
    assert client.ask(Discharge(txn_id=txn_id)) == [Accepted()]


@pytest.mark.parametrize(
    ("outcome", "echo"),
    [
        (ACCEPTED_OUTCOME, Accepted()),
        (Modified(), Modified()),
        (Modified(undeliverable_here=True), Modified()),
        (Rejected(), Rejected()),
        (Released(), Released()),
    ],
)
def test_settlement_is_echoed_unsettled_and_settled_by_the_commit(
    world: World, client: Client, outcome: object, echo: object
) -> None:
    [at] = received(world)
    txn_id = client.declare()
    event = client.settle(at, txn_id, outcome)
    assert event.state == TransactionalState(txn_id=txn_id, outcome=echo)
    assert not event.settled
    assert world.fragment.holds(only_lock(world), NOW)
    client.ask(Discharge(txn_id=txn_id))
    world.home.commit()
    events = of_type(world.pump(), DispositionReceived)
    assert [(event.settled, event.state) for event in events] == [
        (True, echo),
        (True, Accepted()),
    ]
    assert at not in world.bus_session.unsettled


def test_lock_is_as_before_after_a_rollback(world: World, client: Client) -> None:
    [at] = received(world)
    txn_id = client.declare()
    client.settle(at, txn_id)
    client.roll_back(txn_id)
    lock = only_lock(world)
    assert lock.enlisted_in is None and lock.message.delivery_count == 0
    world.session.send_disposition(True, at, at, False, ACCEPTED)
    world.pump()
    world.home.commit()
    assert [state for _, _, state in world.verdicts()] == [Accepted()]
    assert world.fragment.active_count == 0


def test_second_settlement_is_refused_while_the_first_is_open(
    world: World, client: Client
) -> None:
    [at] = received(world)
    first, second = client.declare(), client.declare()
    client.settle(at, first)
    event = client.settle(at, second)
    assert (event.settled, condition(event.state)) == (True, "amqp:not-allowed")
    assert condition(client.commit(second)) == ROLLBACK
    assert client.commit(first) == Accepted()
    assert world.fragment.active_count == 0


def test_client_that_settles_after_the_answer_changes_nothing(
    world: World, client: Client
) -> None:
    [at] = received(world)
    txn_id = client.declare()
    client.settle(at, txn_id)
    state = TransactionalState(txn_id=txn_id, outcome=ACCEPTED_OUTCOME)
    world.session.send_disposition(True, at, at, True, encode_composite(state))
    world.pump()
    assert client.commit(txn_id) == Accepted()
    assert world.fragment.active_count == 0


def test_lock_that_runs_out_makes_the_commit_fail(world: World, client: Client) -> None:
    [at] = received(world)
    txn_id = client.declare()
    client.send(txn_id)
    client.settle(at, txn_id)
    world.home.now += world.fragment.settings.lock_duration_ms
    answer = client.commit(txn_id)
    assert condition(answer) == ROLLBACK and "lock supplied" in text(answer)
    assert world.fragment.active_count == 1


def test_properties_of_a_settlement_count_towards_the_size(world: World) -> None:
    client = Client(world)
    [at] = received(world)
    txn_id = client.declare()
    client.settle(at, txn_id, Modified(message_annotations={Symbol("a"): "x" * 1_000}))
    transaction = world.coordinator.find(txn_id, NOW)
    assert transaction.held_bytes > 1_000


def test_properties_that_are_too_large_make_the_commit_fail(
    world: World, client: Client
) -> None:
    [at] = received(world)
    lock = only_lock(world)
    lock.message.annex = Annex(modified={"b": bytes(PROPERTIES_BYTES - 10)})
    txn_id = client.declare()
    client.settle(at, txn_id, Modified(message_annotations={Symbol("a"): "x" * 10}))
    assert condition(client.commit(txn_id)) == ROLLBACK
    assert only_lock(world) is lock


def test_unknown_delivery_is_refused_and_dooms(world: World, client: Client) -> None:
    received(world)
    txn_id = client.declare()
    event = client.settle(77, txn_id)
    assert condition(event.state) == "com.microsoft:message-lock-lost"
    assert condition(client.commit(txn_id)) == ROLLBACK


def test_refused_message_dooms_the_transaction(world: World, client: Client) -> None:
    txn_id = client.declare()
    client.send(txn_id)
    assert condition(client.send(txn_id, b"rubbish")) == "com.microsoft:argument-error"
    answer = client.commit(txn_id)
    assert condition(answer) == ROLLBACK
    assert world.fragment.active_count == 0


def test_refused_message_alone_dooms_the_transaction(client: Client) -> None:
    txn_id = client.declare()
    client.send(txn_id, b"rubbish")
    assert condition(client.commit(txn_id)) == ROLLBACK


def test_failed_commit_is_a_rollback(world: World, client: Client) -> None:
    txn_id = client.declare()
    client.send(txn_id)
    client.ask(Discharge(txn_id=txn_id))
    world.home.apply_admissions()
    world.home.fail(ServerBusy("no room"))
    [(_, _, state)] = world.verdicts()
    assert condition(state) == ROLLBACK and "no room" in text(state)


def test_unknown_outcome_of_a_commit_is_not_called_a_rollback(
    world: World, client: Client
) -> None:
    txn_id = client.declare()
    client.send(txn_id)
    client.ask(Discharge(txn_id=txn_id))
    world.home.apply_admissions()
    world.home.fail(InternalError())
    [(_, _, state)] = world.verdicts()
    assert condition(state) == "amqp:internal-error"


def test_full_entity_makes_the_commit_fail(world: World, client: Client) -> None:
    txn_id = client.declare()
    client.send(txn_id)
    client.send(txn_id)
    world.fragment.settings.max_size_bytes = 2 * len(BODY) - 1
    answer = client.commit(txn_id)
    assert condition(answer) == ROLLBACK and "quota" in text(answer)
    assert world.fragment.active_count == 0


def test_disabled_entity_makes_the_commit_fail(world: World, client: Client) -> None:
    txn_id = client.declare()
    client.send(txn_id)
    world.fragment.settings.takes_messages = False
    answer = client.commit(txn_id)
    assert condition(answer) == ROLLBACK and "disabled" in text(answer)


def test_deleted_entity_makes_the_commit_fail(world: World, client: Client) -> None:
    [at] = received(world)
    txn_id = client.declare()
    client.settle(at, txn_id)
    world.fragment.drop()
    answer = client.commit(txn_id)
    assert condition(answer) == ROLLBACK and "could not be found" in text(answer)


def test_duplicates_are_found_by_the_commit() -> None:
    world = World(duplicate_window_ms=60_000)
    client = Client(world)
    message = Message(properties=Properties(message_id="a"), body=AmqpValue("x"))
    txn_id = client.declare()
    client.send(txn_id, encode_message(message))
    client.send(txn_id, encode_message(message))
    assert client.commit(txn_id) == Accepted()
    assert world.fragment.active_count == 1
    txn_id = client.declare()
    client.send(txn_id, encode_message(message))
    assert client.commit(txn_id) == Accepted()
    assert world.fragment.active_count == 1


def test_ids_are_known_once(client: Client) -> None:
    txn_id = client.declare()
    client.roll_back(txn_id)
    assert condition(client.ask(Discharge(txn_id=txn_id))[0]) == UNKNOWN
    assert condition(client.send(txn_id)) == UNKNOWN


def test_settlement_in_an_unknown_transaction_is_refused(
    world: World, client: Client
) -> None:
    [at] = received(world)
    event = client.settle(at, b"nobody")
    assert (event.settled, condition(event.state)) == (True, UNKNOWN)
    assert only_lock(world).enlisted_in is None


def test_transaction_ends_with_its_time(world: World, client: Client) -> None:
    [at] = received(world)
    txn_id = client.declare()
    client.send(txn_id)
    client.settle(at, txn_id)
    world.home.now += 119_999
    world.coordinator.tick(world.home.now)
    lock = only_lock(world)
    assert lock.enlisted_in is not None
    world.home.now += 1
    world.coordinator.tick(world.home.now)
    assert lock.enlisted_in is None
    answer = client.ask(Discharge(txn_id=txn_id))[0]
    assert condition(answer) == TIMEOUT and "120 seconds" in text(answer)


def test_time_is_kept_between_ticks(world: World, client: Client) -> None:
    txn_id = client.declare()
    world.home.now += 120_000
    assert condition(client.send(txn_id)) == TIMEOUT


def test_only_the_last_timeouts_are_remembered(world: World) -> None:
    world.coordinator = Coordinator(TransactionLimits(open_count=2), world.home.txn_ids)
    client = Client(world)
    ids = []
    for _ in range(3):
        ids.append(client.declare())
        world.home.now += 120_000
    world.coordinator.tick(world.home.now)
    conditions = [condition(client.ask(Discharge(txn_id=i))[0]) for i in ids]
    assert conditions == [UNKNOWN, TIMEOUT, TIMEOUT]


def test_open_transactions_have_a_limit(world: World) -> None:
    world.coordinator = Coordinator(TransactionLimits(open_count=2), world.home.txn_ids)
    client = Client(world)
    first = client.declare()
    client.declare()
    answer = client.ask(Declare())[0]
    assert condition(answer) == "amqp:resource-limit-exceeded"
    assert "2 transactions" in text(answer)
    client.roll_back(first)
    client.declare()


def test_closing_a_control_link_ends_its_own_transactions(
    world: World, client: Client
) -> None:
    [at] = received(world)
    txn_id = client.declare()
    client.settle(at, txn_id)
    world.coordinator.roll_back_of(object())
    assert only_lock(world).enlisted_in is not None
    world.coordinator.roll_back_all()
    assert only_lock(world).enlisted_in is None
    assert condition(client.send(txn_id)) == UNKNOWN


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (AmqpValue("declare"), "com.microsoft:argument-error"),
        (AmqpValue(to_described(Accepted())), "com.microsoft:argument-error"),
        (
            AmqpValue(to_described(Declare(global_id=b"global"))),
            "amqp:not-implemented",
        ),
    ],
)
def test_other_requests_are_refused(
    world: World, client: Client, body: AmqpValue, expected: str
) -> None:
    client.control.send(encode_message(Message(body=body)), b"tag", False)
    [(_, _, state)] = world.verdicts()
    assert condition(state) == expected


def test_rubbish_is_refused(world: World, client: Client) -> None:
    client.control.send(b"\xff\xff", b"tag", False)
    [(_, _, state)] = world.verdicts()
    assert condition(state) == "com.microsoft:argument-error"


def test_settled_requests_get_no_answer(world: World, client: Client) -> None:
    txn_id = client.declare()
    client.send(txn_id)
    client.control.send(request(Declare()), b"tag", True)
    client.control.send(request(Discharge(txn_id=txn_id)), b"tag", True)
    world.pump()
    world.home.commit()
    assert world.verdicts() == []
    assert world.fragment.active_count == 1


def test_state_that_is_no_transaction_is_refused(world: World, client: Client) -> None:
    client.sender.send(BODY, b"tag", False, state=ACCEPTED)
    [(_, _, state)] = world.verdicts()
    assert condition(state) == "com.microsoft:argument-error"


# --- schedules ------------------------------------------------------------------


def scheduling(world: World) -> TransactionalSchedule:
    message = read_message(BODY)
    message.scheduled_at = NOW + 1_000
    return TransactionalSchedule(world.fragment, [message], 1)


def test_scheduled_message_keeps_the_number_it_was_promised(
    world: World, client: Client
) -> None:
    txn_id = client.declare()
    work = scheduling(world)
    world.coordinator.find(txn_id, NOW).enlist(work)
    assert work.reserve() == [1]
    world.home.enqueue()
    assert client.commit(txn_id) == Accepted()
    assert world.fragment.scheduled_count == 1
    assert world.home.expected == [NOW + 1_000]
    assert world.fragment.next_sequence == 3


def test_numbers_of_a_restored_fragment_are_void(world: World, client: Client) -> None:
    txn_id = client.declare()
    work = scheduling(world)
    world.coordinator.find(txn_id, NOW).enlist(work)
    work.reserve()
    world.home.fail(ServerBusy())
    answer = client.commit(txn_id)
    assert condition(answer) == ROLLBACK and "no longer valid" in text(answer)


def test_cancellation_is_claimed_once_and_broken_by_others(
    world: World, client: Client
) -> None:
    message = read_message(BODY)
    message.scheduled_at = NOW + 1_000
    home, fragment = world.home, world.fragment
    schedule.schedule(fragment, message, 1, NOW, home.changes)
    home.commit()
    txn_id = client.declare()
    work = TransactionalCancel(fragment, message, 1)
    work.claim()
    world.coordinator.find(txn_id, NOW).enlist(work)
    with pytest.raises(NotAllowed, match="not discharged yet"):
        TransactionalCancel(fragment, message, 1).claim()
    schedule.cancel(fragment, message, 1, NOW, home.changes)
    answer = client.commit(txn_id)
    assert condition(answer) == ROLLBACK and "sequence number 1" in text(answer)
    assert fragment.scheduled_count == 0


class _ElsewhereReceiver(RemoteReceiver):
    """A delivery of another broker."""

    def __init__(self, error: ServiceBusError | None = None) -> None:
        super().__init__()
        self._error = error
        self.outcomes: list[object] = []

    def settle(self, delivery_id: int, state: object, settled: bool) -> None:
        raise AssertionError("it was passed on")

    def settled_some(self) -> None:
        raise AssertionError("it was passed on")

    def is_in(self, transaction: Transaction, delivery_id: int) -> bool:
        return bool(self.outcomes)

    def settle_in(
        self, transaction: Transaction, delivery_id: int, outcome: object
    ) -> bytes:
        if self._error is not None:
            raise self._error
        self.outcomes.append(outcome)
        return settled_in(transaction.txn_id, COMPLETE)

    def committed(self, delivery_id: int, kind: int) -> None:
        raise AssertionError("the transaction has no work")

    def let_go(self, delivery_id: int) -> None:
        raise AssertionError("the transaction has no work")


def test_delivery_of_another_broker_is_echoed_and_stays_unsettled(
    world: World, client: Client
) -> None:
    [delivery_id] = received(world)
    receiver = _ElsewhereReceiver()
    world.bus_session.unsettled[delivery_id] = receiver
    txn_id = client.declare()
    event = client.settle(delivery_id, txn_id)
    assert isinstance(event.state, TransactionalState)
    assert not event.settled
    assert receiver.outcomes == [Accepted()]
    assert world.bus_session.unsettled[delivery_id] is receiver


def test_refused_delivery_of_another_broker_dooms(world: World, client: Client) -> None:
    [delivery_id] = received(world)
    refusing = _ElsewhereReceiver(NotAllowed("no"))
    world.bus_session.unsettled[delivery_id] = refusing
    txn_id = client.declare()
    event = client.settle(delivery_id, txn_id)
    assert condition(event.state) == "amqp:not-allowed"
    assert condition(client.commit(txn_id)) == ROLLBACK
