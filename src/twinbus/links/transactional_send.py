"""Messages that are sent when their transaction is committed.

They get their sequence numbers then, so they come after whatever was sent meanwhile,
and in the order in which the transaction sent them.
"""

from typing import final

from twinbus.broker.admission import Admission, Duplicates
from twinbus.broker.fragment import Fragment
from twinbus.broker.message import Message
from twinbus.broker.transaction import Work
from twinbus.links.sending import (
    accept_unless_seen,
    ask_for_duplicates,
    check_room,
    check_status,
)


@final
class TransactionalSend(Work):
    """One delivery of a sender: a message, or a batch."""

    def __init__(
        self,
        fragment: Fragment,
        messages: list[Message],
        actor: int,
    ) -> None:
        super().__init__(fragment.home)
        self._fragment: Fragment = fragment
        self._messages: list[Message] = messages
        self._actor: int = actor
        self.target = fragment
        self.message_count = len(messages)
        for message in messages:
            self.added_bytes += len(message.raw)

    def ask(self, admission: Admission) -> None:
        ask_for_duplicates(self._fragment, self._messages, admission)

    def check(self, now: int) -> None:
        check_room(self._fragment, 0, now)
        check_status(self._fragment)

    def apply(self, duplicates: Duplicates, now: int) -> None:
        for message in self._messages:
            accept_unless_seen(self._fragment, message, self._actor, now, duplicates)
