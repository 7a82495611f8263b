"""The clients of a world: one random step after another, from a seed.

Steps are drawn with weights, so that queues fill and empty, and all operations are
combined. A step that is not possible now does nothing; the draw still counts, so that a
seed always gives the same run.
"""

from collections.abc import Callable
from random import Random

from simulator import requests
from simulator.audited_message import Rules
from simulator.auditor import Auditor
from simulator.draft import Draft, uid_of
from simulator.life import Life
from simulator.links import (
    ClientSettlement,
    Held,
    SimulatedReceiver,
    SimulatedSender,
)
from simulator.transactions import SimulatedTransaction

_KINDS = ("complete", "abandon", "release", "defer", "dead-letter")


class Workload:
    """Chooses steps, and remembers what a client would."""

    # How often, compared to other steps, a queue is created.
    creations = 1.0
    # The class of the auditor.
    auditor: type[Auditor] = Auditor
    # Paths of the entities that hold messages.
    paths: tuple[str, ...] = ("apples", "pears", "plums")

    def __init__(self, random: Random, auditor: Auditor) -> None:
        self._random = random
        self._auditor = auditor
        # Numbers of messages, links and transactions so far.
        self._message_count = 0
        self._link_count = 0
        self._transaction_count = 0
        # Worlds differ in the weights of their steps.
        self._steps: list[tuple[Callable[[Life], None], float]] = [
            (self._send, 14 * random.random()),
            (self._send_batch, 4 * random.random()),
            (self._schedule, 4 * random.random()),
            (self._cancel, 2 * random.random()),
            (self._receive, 6 * random.random()),
            (self._receive_and_delete, 2 * random.random()),
            (self._settle, 25 * random.random()),
            (self._transact, 15 * random.random()),
            (self._renew, 3 * random.random()),
            (self._receive_deferred, 4 * random.random()),
            (self._peek, 3 * random.random()),
            (self._batch_delete, random.random()),
            (self._leave, 2 * random.random()),
            (self._create_queue, self.creations),
            (self._update_queue, 0.6 * random.random()),
            (self._delete_queue, 0.4 * random.random()),
        ]
        self._message_limit = random.choice((10, 40, 120))

    def step(self, life: Life) -> None:
        """Do one thing."""
        steps, weights = zip(*self._steps, strict=True)
        self._random.choices(steps, weights)[0](life)

    # --- queues ---------------------------------------------------------------

    def _rules(self) -> Rules:
        random = self._random
        return Rules(
            lock_duration_ms=random.choice((5_000, 10_000, 60_000)),
            max_delivery_count=random.choice((1, 2, 3, 10)),
            default_ttl_ms=random.choice((0, 0, 0, 3_000, 30_000, 90_000)),
            dead_letter_on_expiration=random.random() < 0.5,
        )

    def _create_queue(self, life: Life) -> None:
        path = self._random.choice(self.paths)
        rules = self._rules()
        if self._auditor.may_create(path):
            life.request(requests.create_queue(life, path, rules))

    def _update_queue(self, life: Life) -> None:
        path = self._path()
        rules = self._rules()
        if path is not None:
            self._update_to(life, path, self._auditor.updated_rules(path, rules))

    def _update_to(self, life: Life, path: str, rules: Rules) -> None:
        life.request(requests.update_queue(life, path, rules))

    def _delete_queue(self, life: Life) -> None:
        path = self._path()
        if path is not None:
            self._delete(life, path)

    def _delete(self, life: Life, path: str) -> None:
        life.request(requests.delete_queue(life, path))

    def _path(self) -> str | None:
        """A queue that exists, as far as a client knows."""
        path = self._random.choice(self.paths)
        return path if self._auditor.has_queue(path) else None

    def _place(self) -> tuple[str | None, bool]:
        return self._path(), self._random.random() < 0.25

    # --- sending --------------------------------------------------------------

    def _draft(self, scheduled_at: int = 0) -> Draft:
        self._message_count += 1
        return Draft(
            uid=uid_of(self._message_count),
            ttl_ms=self._random.choice((0, 0, 0, 0, 2_000, 20_000, 70_000)),
            scheduled_at=scheduled_at,
            padding=self._random.choice((0, 0, 30, 300)),
        )

    def drafts(self, count: int, scheduled_at: int = 0) -> list[Draft]:
        """New messages, up to the limit of the world."""
        room = self._message_limit - self._message_count
        return [self._draft(scheduled_at) for _ in range(min(count, room))]

    def _sender(self, life: Life) -> SimulatedSender | None:
        path = self._path()
        attached = [
            sender
            for sender in life.senders
            if sender.is_attached and sender.path == path
        ]
        if attached and self._random.random() < 0.8:
            return self._random.choice(attached)
        if path is None or not life.has_queue(path):
            return None
        self._link_count += 1
        sender = SimulatedSender(life, life.namespace.entity(path), self._link_count)
        life.senders.append(sender)
        return sender

    def _send(self, life: Life) -> None:
        later = 0
        if self._random.random() < 0.1:
            later = life.clock.now() + self._random.choice((0, 500, 20_000))
        sender = self._sender(life)
        drafts = self.drafts(1, later)
        if sender is not None:
            sender.send(drafts)

    def _send_batch(self, life: Life) -> None:
        sender = self._sender(life)
        drafts = self.drafts(self._random.randint(1, 30))
        if sender is not None:
            sender.send(drafts)

    def _schedule(self, life: Life) -> None:
        path = self._path()
        later = self._random.choice((-1_000, 200, 5_000, 40_000))
        drafts = self.drafts(self._random.randint(1, 4), life.clock.now() + later)
        if path is not None and drafts:
            life.request(requests.schedule(life, path, drafts))

    def _cancel(self, life: Life) -> None:
        scheduled = self._auditor.known_numbers("scheduled")
        if scheduled:
            path, uid, number = self._random.choice(scheduled)
            life.request(requests.cancel(life, path, uid, number))

    # --- receiving ------------------------------------------------------------

    def _receiver(self, life: Life, peek_lock: bool) -> SimulatedReceiver | None:
        path, dead_letter = self._place()
        attached = [
            receiver
            for receiver in life.receivers
            if receiver.is_attached
            and receiver.path == path
            and receiver.dead_letter == dead_letter
            and receiver.peek_lock == peek_lock
        ]
        if attached and self._random.random() < 0.7:
            return self._random.choice(attached)
        if path is None or not life.has_queue(path):
            return None
        return self._new_receiver(life, path, dead_letter, peek_lock)

    def _new_receiver(
        self, life: Life, path: str, dead_letter: bool, peek_lock: bool
    ) -> SimulatedReceiver | None:
        self._link_count += 1
        queue = life.namespace.entity(path)
        receiver = SimulatedReceiver(
            life, queue, dead_letter, peek_lock, self._link_count
        )
        life.receivers.append(receiver)
        return receiver

    def _receive(self, life: Life) -> None:
        self._give_credit(self._receiver(life, True))

    def _receive_and_delete(self, life: Life) -> None:
        self._give_credit(self._receiver(life, False))

    def _give_credit(self, receiver: SimulatedReceiver | None) -> None:
        credit = self._random.choice((1, 2, 5, 20, 100))
        drain = self._random.random() < 0.4
        if receiver is not None:
            receiver.give_credit(credit, drain)

    def _leave(self, life: Life) -> None:
        attached = [receiver for receiver in life.receivers if receiver.is_attached]
        if attached:
            receiver = self._random.choice(attached)
            life.tell(f"receiver {receiver.number} leaves")
            receiver.leave()

    def _receive_deferred(self, life: Life) -> None:
        random = self._random
        group = "dead" if random.random() < 0.2 else "main"
        known = self._auditor.known_numbers(group, deferred=True)
        count, peek_lock = random.choice((1, 1, 2)), random.random() < 0.7
        if not known:
            return
        path = random.choice(known)[0]
        wanted = {uid: number for at, uid, number in known if at == path}
        chosen = random.sample(sorted(wanted), min(count, len(wanted)))
        numbers = {uid: wanted[uid] for uid in chosen}
        life.request(
            requests.receive_deferred(life, path, group == "dead", numbers, peek_lock)
        )

    # --- settling -------------------------------------------------------------

    def _held(self, life: Life) -> Held | None:
        """Mostly a lock that a client should still have, sometimes an old one."""
        tokens = list(life.held)
        if not tokens:
            return None
        return life.held[self._random.choice(tokens)]

    def _settlement(self) -> ClientSettlement:
        random = self._random
        kind = random.choices(_KINDS, (8, 5, 2, 3, 2))[0]
        reason = random.choice((None, "Broken", "Late"))
        modified: dict[object, object] | None = None
        if random.random() < 0.3:
            modified = {"attempt": random.randint(1, 9)}
        return ClientSettlement(
            kind=kind,
            reason=reason if kind == "dead-letter" else None,
            modified=modified if kind in ("abandon", "defer", "dead-letter") else None,
        )

    def _settle(self, life: Life) -> None:
        random = self._random
        held = self._held(life)
        settlement = self._settlement()
        by_token = random.random() < 0.3
        is_repeated = random.random() < 0.1
        if held is None:
            return
        if not is_repeated:
            del life.held[held.token]
        if self._auditor.is_settling(held.token, held.uid):
            return
        if by_token or held.receiver is None or held.lock is None:
            if life.has_queue(held.path):
                life.request(requests.settle(life, held, settlement))
        else:
            held.receiver.settle(held, settlement)

    # --- transactions ---------------------------------------------------------

    def _transact(self, life: Life) -> None:
        """A step of a transaction: begin, add work, or end it."""
        random = self._random
        transaction = self._transaction(life)
        sender = self._sender(life)
        held, settlement = self._held(life), self._settlement()
        wish = random.random()
        if wish < 0.3 and transaction.has_work():
            transaction.commit()
        elif 0.3 <= wish < 0.33:
            transaction.roll_back()
        elif wish < 0.66 and held is not None and held.lock is not None:
            if not self._auditor.is_settling(held.token, held.uid):
                transaction.settle(held, settlement)
        elif sender is not None:
            transaction.send(sender, self.drafts(random.randint(1, 3)))

    def _transaction(self, life: Life) -> SimulatedTransaction:
        open_ones = [item for item in life.transactions if item.is_open]
        if open_ones and (len(open_ones) > 2 or self._random.random() < 0.8):
            return self._random.choice(open_ones)
        self._transaction_count += 1
        transaction = SimulatedTransaction(life, self._transaction_count)
        life.transactions.append(transaction)
        return transaction

    def _renew(self, life: Life) -> None:
        held = self._held(life)
        if held is not None and life.has_queue(held.path):
            life.request(requests.renew(life, held))

    # --- looking, clearing ----------------------------------------------------

    def _peek(self, life: Life) -> None:
        path, dead_letter = self._place()
        start = self._random.choice((0, 0, 0, 5))
        count = self._random.choice((3, 200))
        if path is not None:
            life.request(_peek(life, path, dead_letter, start, count))

    def _batch_delete(self, life: Life) -> None:
        path, dead_letter = self._place()
        count = self._random.choice((1, 5, 100))
        if path is not None and life.has_queue(path):
            life.request(requests.batch_delete(life, path, dead_letter, count))


async def _peek(
    life: Life, path: str, dead_letter: bool, start: int, count: int
) -> None:
    await requests.peek(life, path, dead_letter, start, count)
