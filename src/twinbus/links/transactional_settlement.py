"""A message that is settled when its transaction is committed.

Until then its lock is held as before, and marked, so that nobody settles it otherwise;
it also runs out as before, and then the commit fails. The delivery stays unsettled on
its link meanwhile, so that the client can settle it again after a rollback.
"""

from typing import final

from twinbus.amqp.session import AmqpSession
from twinbus.broker.admission import Duplicates
from twinbus.broker.fragment import Fragment
from twinbus.broker.message_lock import MessageLock
from twinbus.broker.transaction import Work
from twinbus.links.outcomes import STATE_OF, Settlement


@final
class TransactionalSettlement(Work):
    """One message, settled by its delivery or by its token."""

    def __init__(
        self,
        fragment: Fragment,
        lock: MessageLock,
        settlement: Settlement,
        actor: int,
    ) -> None:
        super().__init__(fragment.home)
        self._fragment: Fragment = fragment
        self._lock: MessageLock = lock
        self._settlement: Settlement = settlement
        self._actor: int = actor
        # The delivery that ends with it; None if there is none, or it has ended.
        self._session: AmqpSession | None = None
        self._delivery_id: int = 0
        self.added_bytes = settlement.size_bytes()

    def ends(self, session: AmqpSession, delivery_id: int) -> None:
        """A delivery is unsettled until the commit, and settled by it."""
        self._session = session
        self._delivery_id = delivery_id

    def check(self, now: int) -> None:
        fragment = self._fragment
        fragment.check_exists()
        if not fragment.holds(self._lock, now):
            raise fragment.lock_lost()
        self._settlement.check(fragment, self._lock)

    def apply(self, duplicates: Duplicates, now: int) -> None:
        self._lock.enlisted_in = None
        changes = self.home.changes
        self._settlement.apply(self._fragment, self._lock, self._actor, now, changes)

    def committed(self) -> None:
        session, at = self._session, self._delivery_id
        if session is not None and session.unsettled.pop(at, None) is not None:
            state = STATE_OF[self._settlement.kind]
            session.send_disposition(False, at, at, True, state)

    def let_go(self) -> None:
        self._lock.enlisted_in = None
