"""A control link: clients declare and discharge transactions on it.

| the client sends        | the answer                                             |
|-------------------------|--------------------------------------------------------|
| declare                 | declared, with the id of the transaction, at once      |
| discharge, to commit    | accepted, after everything is durable; or rejected     |
| discharge, to roll back | accepted, at once                                      |

A commit is an admission: first the ids of its messages are looked up in the store, then
all of it is checked and applied. Rejected means that nothing was committed, unless the
error says that the outcome is unknown. If another broker has the store, it commits.
"""

from typing import Final, final

from twinbus.amqp.composite import encode_composite, from_described
from twinbus.amqp.errors import DecodeError
from twinbus.amqp.events import MessageReceived
from twinbus.amqp.link import Link
from twinbus.amqp.messaging import AmqpValue, decode_message
from twinbus.amqp.outcomes import ACCEPTED, encode_rejected
from twinbus.amqp.transactions import Declare, Declared, Discharge
from twinbus.broker.transaction import Transaction
from twinbus.errors import (
    ArgumentError,
    InternalError,
    MessageSizeExceeded,
    NotSupported,
    ServiceBusError,
    TransactionRolledBack,
)
from twinbus.limits import CONTROL_REQUEST_BYTES, MANAGEMENT_CREDIT
from twinbus.links.coordinator import Coordinator
from twinbus.links.output import Output
from twinbus.links.refusal import amqp_error, overrun
from twinbus.links.remote_commits import RemoteCommits
from twinbus.links.transaction_commit import Commit, TransactionListener

NOBODY: Final = -1
"""Instead of a delivery id: the request was sent settled and gets no answer."""


@final
class CoordinatorLink(TransactionListener):
    """Declares and discharges transactions for one client."""

    def __init__(
        self,
        link: Link,
        coordinator: Coordinator,
        output: Output,
        remote: RemoteCommits | None = None,
    ) -> None:
        """`remote`: None if there is no other broker."""
        super().__init__()
        self._link: Link = link
        self._coordinator: Coordinator = coordinator
        self._output: Output = output
        self._remote: RemoteCommits | None = remote
        # Commits in progress, by number, with the delivery id of the discharge.
        self._committing: dict[int, tuple[Transaction, int]] = {}
        self._commit_count: int = 0

    def start(self) -> None:
        """The attach was answered: give the client credit."""
        self._link.issue_credit(MANAGEMENT_CREDIT)

    def on_message(self, delivery: MessageReceived, now: int) -> None:
        answer_to = NOBODY if delivery.settled else delivery.delivery_id
        try:
            request = _request(delivery)
            if isinstance(request, Declare):
                self._declare(request, answer_to, now)
            else:
                transaction = self._coordinator.take(request.txn_id, now)
                self._discharge(transaction, bool(request.fail), answer_to)
        except ServiceBusError as error:
            self._reject(answer_to, error)
        if self._link.credit <= MANAGEMENT_CREDIT // 2:
            self._top_up()
        self._output.mark()

    def _top_up(self) -> None:
        """Renew the credit, or detach a client that has exceeded it."""
        if self._link.credit >= 0:
            self._link.issue_credit(MANAGEMENT_CREDIT)
            return
        text = f"the link has sent more than its credit of {MANAGEMENT_CREDIT}"
        self._link.detach(overrun(text))

    def _declare(self, request: Declare, answer_to: int, now: int) -> None:
        if request.global_id is not None:
            raise NotSupported("Global transactions are not supported.")
        if answer_to == NOBODY:
            raise ArgumentError("A declare must be unsettled, to get a transaction id.")
        transaction = self._coordinator.declare(self, now)
        self._answer(answer_to, encode_composite(Declared(txn_id=transaction.txn_id)))

    def _discharge(self, transaction: Transaction, fail: bool, answer_to: int) -> None:
        failure = transaction.failure
        if not fail and failure is not None:
            transaction.roll_back()
            self.refused(answer_to, failure)
        elif fail or transaction.is_empty():
            transaction.roll_back()
            self._answer(answer_to, ACCEPTED)
        else:
            self._commit(transaction, answer_to)

    def _commit(self, transaction: Transaction, answer_to: int) -> None:
        home, remote = transaction.home, self._remote
        if remote is not None and not home.is_serving and remote.reaches(home):
            remote.commit(transaction, self._begin(transaction, answer_to), self)
        else:
            home.admit(Commit(transaction, answer_to, self))

    # --- the end of a commit --------------------------------------------------

    def applied(self, transaction: Transaction, answer_to: int) -> None:
        """Everything is in the open change set."""
        self.note(transaction.home, self._begin(transaction, answer_to))

    def _begin(self, transaction: Transaction, answer_to: int) -> int:
        """The number of a commit that is in progress now."""
        self._commit_count += 1
        self._committing[self._commit_count] = (transaction, answer_to)
        return self._commit_count

    def refused(self, answer_to: int, error: ServiceBusError) -> None:
        """The transaction could not be committed; nothing was applied."""
        self._reject(answer_to, TransactionRolledBack.because(error))

    def committed(self, items: list[int]) -> None:
        for item in items:
            transaction, answer_to = self._committing.pop(item)
            transaction.committed()
            self._answer(answer_to, ACCEPTED)

    def failed(self, items: list[int], error: ServiceBusError) -> None:
        for item in items:
            transaction, answer_to = self._committing.pop(item)
            transaction.roll_back()
            if isinstance(error, InternalError):
                # The outcome is unknown, so it must not be called rolled back.
                self._reject(answer_to, error)
            else:
                self.refused(answer_to, error)

    def _answer(self, answer_to: int, state: bytes) -> None:
        if answer_to != NOBODY:
            session = self._link.session
            session.send_disposition(True, answer_to, answer_to, True, state)
            self._output.mark()

    def _reject(self, answer_to: int, error: ServiceBusError) -> None:
        self._answer(answer_to, encode_rejected(amqp_error(error)))

    def close(self) -> None:
        """The link was detached: roll back its transactions. A commit that was already
        requested continues."""
        self._coordinator.roll_back_of(self)


def _request(delivery: MessageReceived) -> Declare | Discharge:
    """Decode the client's request. Raises ArgumentError, MessageSizeExceeded."""
    if delivery.oversize:
        raise MessageSizeExceeded(
            f"A declare or discharge can have {CONTROL_REQUEST_BYTES} bytes, and "
            "this one is larger."
        )
    try:
        body = decode_message(delivery.payload).body
        request = from_described(body.value) if isinstance(body, AmqpValue) else None
    except DecodeError as error:
        raise ArgumentError(f"The request is malformed: {error}.") from None
    if isinstance(request, Declare | Discharge):
        return request
    raise ArgumentError("A coordinator accepts only declare and discharge messages.")
