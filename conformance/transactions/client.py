"""A blocking client for transactions, on Proton's own API for them.

    client = TransactionClient(bus)
    with_both = client.declare()
    with_both.send(client.sender("orders"), proton.Message(body="x"))
    with_both.complete(delivery)
    with_both.commit()

Every step waits for the answer of the bus. What is refused raises `Refused` with the
condition, whether it came as an outcome, inside of a transactional state, or with a
detached link. Nothing is settled or released behind the caller's back: Proton would
release what was accepted in a transaction that is rolled back.
"""

import itertools
from dataclasses import dataclass
from typing import Any

import proton
from proton.handlers import TransactionHandler
from proton.utils import BlockingConnection

WAIT_SECONDS = 15
_TRANSACTIONAL_STATE = 0x34

ACCEPTED = 0x24
REJECTED = 0x25
MODIFIED = 0x27


_numbers = itertools.count(1)


def _link_name() -> str:
    # Proton names a link after its address, so that a second one would have no name.
    return f"link-{next(_numbers)}"


class Refused(Exception):
    """The bus said no; `condition` is the symbol it gave."""

    def __init__(self, condition: str, description: str) -> None:
        super().__init__(f"{condition}: {description}")
        self.condition = condition


@dataclass(frozen=True, slots=True)
class Received:
    """A message, and the delivery to settle it by."""

    message: Any
    delivery: Any


class _Control(TransactionHandler):
    """Notes what the coordinator answered last; empty: nothing yet."""

    def __init__(self) -> None:
        self.answer = ""
        self.condition: Any = None

    def _note(self, answer: str, condition: Any = None) -> None:
        self.answer, self.condition = answer, condition

    def on_transaction_declared(self, event: Any) -> None:
        self._note("declared")

    def on_transaction_committed(self, event: Any) -> None:
        self._note("committed")

    def on_transaction_aborted(self, event: Any) -> None:
        self._note("rolled back")

    def on_transaction_declare_failed(self, event: Any) -> None:
        self._note("refused", event.delivery.remote.condition)

    def on_transaction_commit_failed(self, event: Any) -> None:
        self._note("refused", event.delivery.remote.condition)

    def on_link_remote_close(self, event: Any) -> None:
        self._note("refused", event.link.remote_condition)


class TransactionClient:
    """A connection with the root key; its links and its transactions."""

    def __init__(self, bus: Any) -> None:
        self._connection = BlockingConnection(
            f"amqp://127.0.0.1:{bus.port}",
            timeout=WAIT_SECONDS,
            reconnect=False,
            user=bus.key_name,
            password=bus.key,
            allowed_mechs="PLAIN",
            allow_insecure_mechs=True,
        )

    def close(self) -> None:
        self._connection.close()

    def sender(self, address: str) -> Any:
        return self._connection.create_sender(address, name=_link_name())

    def receiver(self, address: str, options: Any = None) -> Any:
        """A receiver that has credit only while `receive` waits, for one message."""
        return self._connection.create_receiver(
            address, credit=0, name=_link_name(), options=options
        )

    def receive(self, receiver: Any) -> Received:
        """The next message, unsettled."""
        message = receiver.receive(timeout=WAIT_SECONDS)
        return Received(message, receiver.fetcher.unsettled.pop())

    def close_coordinator(self) -> None:
        """Close the control link, and with it what is open on it."""
        link = self._connection.conn._txn_ctrl
        link.close()
        self.wait(lambda: link.state & proton.Endpoint.REMOTE_CLOSED)
        self._connection.conn._txn_ctrl = None

    def declare(self) -> "OpenTransaction":
        control = _Control()
        transaction = self._connection.container.declare_transaction(
            self._connection.conn, handler=control
        )
        opened = OpenTransaction(self, transaction, control)
        opened.wait_for("declared")
        return opened

    def wait(self, condition: Any) -> None:
        self._connection.wait(condition)


class OpenTransaction:
    """A declared transaction; work in it is provisional until `commit`."""

    def __init__(
        self, client: TransactionClient, transaction: Any, control: _Control
    ) -> None:
        self._client = client
        self._transaction = transaction
        self._control = control

    @property
    def id(self) -> bytes:
        return bytes(self._transaction.id)

    def forget_id(self) -> None:
        """Go on with an id that the bus never gave."""
        self._transaction.id = b"an id nobody has"

    def send(self, sender: Any, message: Any) -> None:
        self._client.wait(lambda: sender.link.credit > 0)
        self._settled(self._transaction.send(sender.link, message), ACCEPTED)

    def complete(self, received: Received) -> None:
        self._settle(received, ACCEPTED, [])

    def abandon(self, received: Received) -> None:
        self._settle(received, MODIFIED, [True, False])

    def defer(self, received: Received) -> None:
        self._settle(received, MODIFIED, [True, True])

    def dead_letter(self, received: Received) -> None:
        self._settle(received, REJECTED, [])

    def _settle(self, received: Received, code: int, fields: list[Any]) -> None:
        outcome = proton.Described(proton.ulong(code), fields)
        received.delivery.local.data = [self._transaction.id, outcome]
        received.delivery.update(_TRANSACTIONAL_STATE)
        self._settled(received.delivery, code)

    def _settled(self, delivery: Any, expected: int) -> None:
        """Wait for the outcome: the one asked for, in this transaction."""
        self._client.wait(lambda: delivery.settled or delivery.remote_state)
        state, data = delivery.remote_state, delivery.remote.data
        condition = delivery.remote.condition
        delivery.settle()
        if state == _TRANSACTIONAL_STATE:
            code, fields = int(data[1].descriptor), data[1].value
            assert bytes(data[0]) == self.id, "the answer names another transaction"
            if code == REJECTED != expected:
                raise _refused_by(fields)
            assert code == expected, f"outcome {code:#x}, not {expected:#x}"
            return
        if condition is not None:
            raise Refused(str(condition.name), str(condition.description))
        raise AssertionError(f"answered outside of the transaction, by {state}")

    def commit(self) -> None:
        self._control.answer = ""
        self._transaction.commit()
        self.wait_for("committed")

    def rollback(self) -> None:
        self._control.answer = ""
        self._transaction.abort()
        self.wait_for("rolled back")

    def wait_for(self, answer: str) -> None:
        """Wait for the coordinator; raises if its answer is another one."""
        self._client.wait(lambda: self._control.answer)
        if self._control.answer == "refused":
            condition = self._control.condition
            assert condition is not None, "refused without an error"
            raise Refused(str(condition.name), str(condition.description))
        assert self._control.answer == answer, self._control.answer


def _refused_by(fields: list[Any]) -> Refused:
    """A rejected outcome inside of a transactional state: [[condition, text, info]]."""
    error = fields[0].value
    return Refused(str(error[0]), str(error[1]))
