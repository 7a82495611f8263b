"""Transactions of clients of a simulated cluster: sends and a settlement, all or
nothing, by way of any broker and into several stores."""

import asyncio
from typing import Final

from simulator.broker_audit import SentTogether
from simulator.broker_visit import (
    SESSIONS,
    Held,
    Means,
    Troubles,
    Visit,
    check_error,
    now,
    payload_of,
)
from twinbus.amqp.outcomes import ACCEPTED_OUTCOME
from twinbus.client.errors import NotAccepted
from twinbus.client.transactions import ClientTransaction
from twinbus.errors import TransactionRolledBack

_ROLLBACKS: Final = 0.2


class TransactionSteps:
    """Of one client."""

    def __init__(self, means: Means, paths: list[str]) -> None:
        self._means = means
        # Sessions are left out: a transaction must not mix them.
        self._paths = [path for path in paths if path != SESSIONS]

    async def step(self, visit: Visit, held: list[Held]) -> None:
        """Declare one, do some things in it, and commit it or roll it back."""
        together = SentTogether()
        try:
            async with asyncio.timeout(self._means.patience):
                if visit.controller is None:
                    visit.controller = await visit.connection.controller()
                transaction = await visit.controller.declare()
                await self._send(visit, transaction, together)
                await self._settle(transaction, together, held)
        except NotAccepted as error:
            check_error(error, "")
            self._undone(together, "was refused")
            return
        except Troubles:
            # Nobody has asked for its commit.
            visit.controller = None
            self._undone(together, "was not finished")
            raise
        await self._discharge(visit, transaction, together)

    async def _send(
        self, visit: Visit, transaction: ClientTransaction, together: SentTogether
    ) -> None:
        random = self._means.random
        for _ in range(random.choice((1, 2, 3))):
            path = random.choice(self._paths)
            sent = self._means.audit.new_message(path)
            together.sent.append(sent)
            sender = await visit.sender(path)
            payload = payload_of(sent, key="k")
            await sender.send(payload, state=transaction.state())

    async def _settle(
        self, transaction: ClientTransaction, together: SentTogether, held: list[Held]
    ) -> None:
        if self._means.random.random() < 0.3:
            return
        for one in held:
            if one.receiver.usable:
                held.remove(one)
                together.completed = one.delivery
                one.delivery.is_settling = True
                state = transaction.state(ACCEPTED_OUTCOME)
                at = one.delivery_id
                await one.receiver.settle_confirmed(at, at, state)
                return

    async def _discharge(
        self, visit: Visit, transaction: ClientTransaction, together: SentTogether
    ) -> None:
        audit, asked_at = self._means.audit, now()
        is_commit = self._means.random.random() >= _ROLLBACKS
        try:
            async with asyncio.timeout(self._means.patience):
                if is_commit:
                    await transaction.commit()
                else:
                    await transaction.roll_back()
        except NotAccepted as error:
            check_error(error, "")
            assert error.error is not None
            is_certain = error.error.condition == TransactionRolledBack.condition
            if is_certain or not is_commit:
                self._undone(together, "was rolled back by the bus")
            else:
                self._unknown(together, error)
        except Troubles as error:
            visit.controller = None
            if is_commit:
                self._unknown(together, error)
            else:
                self._undone(together, "may be rolled back")
            raise
        else:
            if is_commit:
                audit.done_together(together, asked_at)
                self._means.tell(f"{together} is committed")
            else:
                self._undone(together, "is rolled back")

    def _undone(self, together: SentTogether, why: str) -> None:
        self._means.tell(f"{together} {why}")
        self._means.audit.undone_together(together)

    def _unknown(self, together: SentTogether, error: BaseException) -> None:
        self._means.tell(f"{together} is unknown: {type(error).__name__}")
        self._means.audit.unknown_together(together)
