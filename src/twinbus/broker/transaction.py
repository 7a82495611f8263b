"""A transaction: all of its work happens in one commit, or none of it.

Nothing is applied before the discharge. Until then it is a list of work in memory:
messages that are not visible yet, locks that are still held. At the commit all of it is
checked first, then written to one change set, which the store makes durable as one. So
a crash leaves everything or nothing, and a rollback only removes marks from locks.

If a piece of work is refused, or a lock runs out, the transaction can only be rolled
back: its client wants all or nothing.

A change set belongs to one store, so a transaction can settle in one store only. What
it sends to another one goes into the outbox of that store. If another broker serves the
store, that one is told all of the work at the commit (`peers/transaction_shipping.py`).

It knows neither links nor stores, and gets the time as a parameter. Subclasses of
`Work` define what is done.
"""

from abc import abstractmethod
from typing import TYPE_CHECKING, final

from mypy_extensions import mypyc_attr

from twinbus.broker.admission import Admission, Duplicates
from twinbus.broker.fragment import Fragment
from twinbus.broker.home import Home
from twinbus.errors import (
    NotAllowed,
    QuotaExceeded,
    ServerBusy,
    ServiceBusError,
)
from twinbus.limits import (
    TRANSACTION_BYTES,
    TRANSACTION_MESSAGES,
    TRANSACTION_SECONDS,
    TRANSACTION_WORK_BYTES,
    TRANSACTIONS_BYTES,
    TRANSACTIONS_PER_CONNECTION,
)

if TYPE_CHECKING:
    from twinbus.broker.message_lock import MessageLock


@final
class TransactionLimits:
    """Limits of the size and age of transactions, and the bytes that they hold."""

    def __init__(
        self,
        lifetime_ms: int = TRANSACTION_SECONDS * 1000,
        message_count: int = TRANSACTION_MESSAGES,
        size_bytes: int = TRANSACTION_BYTES,
        open_count: int = TRANSACTIONS_PER_CONNECTION,
    ) -> None:
        self.lifetime_ms: int = lifetime_ms
        self.message_count: int = message_count
        self.size_bytes: int = size_bytes
        # Open transactions of one connection.
        self.open_count: int = open_count
        # Bytes of the open transactions of all connections.
        self.total_bytes: int = max(size_bytes, TRANSACTIONS_BYTES)
        # What they hold now; each transaction updates it.
        self.held_bytes: int = 0


@mypyc_attr(allow_interpreted_subclasses=True)
class Work:
    """One piece of a transaction."""

    def __init__(self, home: Home, path: str) -> None:
        # The home of the fragments that it changes, and the path of their entity.
        self.home: Home = home
        self.path: str = path
        # Messages that it sends.
        self.message_count: int = 0
        # Bytes that it holds until the commit, and then adds to the size of its target.
        self.added_bytes: int = 0
        self.target: Fragment | None = None
        # The commit of another home can send its messages, through its outbox.
        self.can_travel: bool = False

    def ask(self, admission: Admission) -> None:
        """Name the ids to look up before it can be applied."""

    @abstractmethod
    def check(self, now: int) -> None:
        """Raises a ServiceBusError if it could not be applied now; changes nothing.

        The transaction checks the sizes of entities, for all of its work together.
        """

    @abstractmethod
    def apply(self, duplicates: Duplicates, now: int) -> None:
        """Write to the open change set of its home, after `check`. Never fails."""

    def check_travel(self, home: Home, now: int) -> None:
        """The same as `check`, if another home commits it."""
        raise AssertionError("this work belongs to its home")

    def apply_from(self, home: Home) -> None:
        """Write to the outbox of another home, after `check_travel`."""
        raise AssertionError("this work belongs to its home")

    def shipment(self) -> list[object]:
        """What another broker is told, whose commit does this work: AMQP values."""
        raise AssertionError("this work belongs to its home")

    def committed(self) -> None:
        """It is durable."""

    def let_go(self) -> None:
        """The transaction was rolled back."""


@final
class Transaction:
    """Work of one client that is committed together."""

    def __init__(self, txn_id: bytes, now: int, limits: TransactionLimits) -> None:
        self.txn_id: bytes = txn_id
        # After this time it can only be rolled back.
        self.expires_at: int = now + limits.lifetime_ms
        self._limits: TransactionLimits = limits
        self._work: list[Work] = []
        # The home of work that cannot travel; None if there is no such work.
        self._bound: Home | None = None
        self._bound_path: str = ""
        # If there is none: the first home that is served here, or else the first.
        self._first: Home | None = None
        self._message_count: int = 0
        self._held_bytes: int = 0
        # Of the messages that it sends to partitioned entities; None if there is none.
        self._key: str | None = None
        # Why it can only be rolled back; None if it can be committed.
        self.failure: ServiceBusError | None = None

    # --- while it is open -----------------------------------------------------

    def enlist(self, work: Work) -> None:
        """Add work to the transaction. If this raises (NotAllowed, QuotaExceeded,
        ServerBusy), the transaction can only be rolled back."""
        try:
            self._check_limits(work)
        except ServiceBusError as error:
            self.doom(error)
            raise
        self._work.append(work)
        if not work.can_travel:
            self._bound, self._bound_path = work.home, work.path
        first = self._first
        if first is None or (work.home.is_serving and not first.is_serving):
            self._first = work.home
        self._message_count += work.message_count
        held_bytes = _held_bytes(work)
        self._held_bytes += held_bytes
        self._limits.held_bytes += held_bytes

    def enlist_lock(self, lock: "MessageLock", work: Work) -> None:
        """Enlist work that ends this lock. Raises as `enlist` does."""
        if lock.enlisted_in is not None:
            error = NotAllowed(
                "The message is settled in a transaction that is not discharged yet. "
                "Commit it or roll it back, and settle again."
            )
            self.doom(error)
            raise error
        self.enlist(work)
        lock.enlisted_in = self

    def _check_limits(self, work: Work) -> None:
        limits = self._limits
        bound = self._bound
        if not work.can_travel and bound is not None and bound is not work.home:
            raise NotAllowed(
                "A transaction can settle messages of one message store only: "
                f"'{work.path}' is in another store than '{self._bound_path}'. Settle "
                "its messages in a transaction of their own; sending to entities of "
                "other stores is possible.",
                entity_path=work.path,
            )
        message_count = self._message_count + work.message_count
        if message_count > limits.message_count:
            raise QuotaExceeded(
                f"A transaction can send {limits.message_count} messages, and this "
                f"would be number {message_count}. Send fewer in each, or raise "
                "'max_transaction_messages'."
            )
        held_bytes = self._held_bytes + _held_bytes(work)
        if held_bytes > limits.size_bytes:
            raise QuotaExceeded(
                f"A transaction can hold {limits.size_bytes} bytes, and this one "
                f"would need {held_bytes}. Put less into each, or raise "
                "'max_transaction_bytes'."
            )
        if limits.held_bytes + _held_bytes(work) > limits.total_bytes:
            raise ServerBusy(
                "The open transactions of all clients hold as much as the server "
                f"allows, {limits.total_bytes} bytes. Commit sooner, or try again."
            )

    def use_key(self, key: str, path: str) -> None:
        """A message with this key is sent to a partitioned entity. Raises NotAllowed if
        the transaction has another key already."""
        if self._key is None:
            self._key = key
        elif self._key != key:
            raise NotAllowed(
                f"A transaction sends a message to '{path}', which is partitioned, "
                "with another key than the messages before it. All messages of a "
                "transaction need the same session id or partition key.",
                entity_path=path,
            )

    def doom(self, reason: ServiceBusError) -> None:
        """Work was refused: the transaction can only be rolled back."""
        if self.failure is None:
            self.failure = reason

    # --- its end --------------------------------------------------------------

    def is_empty(self) -> bool:
        return not self._work

    def work(self) -> list[Work]:
        """All of its work so far, in order."""
        return list(self._work)

    @property
    def home(self) -> Home:
        """The home of the fragments that it changes. It must have work."""
        home = self._first if self._bound is None else self._bound
        assert home is not None
        return home

    @property
    def held_bytes(self) -> int:
        return self._held_bytes

    def ask(self, admission: Admission) -> None:
        """Name all ids to look up before the commit. Those of messages to another
        store are looked up there, when they arrive."""
        home = self.home
        for work in self._work:
            if work.home is home:
                work.ask(admission)

    def check(self, now: int) -> None:
        """Raises the ServiceBusError that prevents the commit."""
        assert self.failure is None
        added: dict[Fragment, int] = {}
        home = self.home
        for work in self._work:
            if work.home is home:
                work.check(now)
            else:
                work.check_travel(home, now)
            target = work.target
            if target is not None:
                added[target] = added.get(target, 0) + work.added_bytes
        for fragment, added_bytes in added.items():
            fragment.check_quota(added_bytes)

    def apply(self, duplicates: Duplicates, now: int) -> None:
        """Write everything to the open change set, after `check`."""
        home = self.home
        for work in self._work:
            if work.home is home:
                work.apply(duplicates, now)
            else:
                work.apply_from(home)

    def committed(self) -> None:
        """All of it is durable."""
        for work in self._end():
            work.committed()

    def roll_back(self) -> None:
        """Discard all of its work; locks stay as they were."""
        for work in self._end():
            work.let_go()

    def _end(self) -> list[Work]:
        self._limits.held_bytes -= self._held_bytes
        self._held_bytes = 0
        ended, self._work = self._work, []
        return ended


def _held_bytes(work: Work) -> int:
    return TRANSACTION_WORK_BYTES + work.added_bytes
