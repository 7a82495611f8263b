"""The beginning of a detour to a store that is served, but has no room.

What was sent to the store before may still wait for its commit there. If that fails,
the messages take the detour, too. So those that came after them wait until all of that
is answered: otherwise they would be in the outbox before them.
"""

from collections.abc import Callable
from dataclasses import dataclass

from twinbus.broker.commit_listener import CommitListener
from twinbus.broker.fragment_address import FragmentAddress
from twinbus.broker.home import Home
from twinbus.broker.message import Message
from twinbus.broker.outbox import DIVERTED
from twinbus.errors import ServerBusy, ServiceBusError
from twinbus.links.sending import post


@dataclass(frozen=True, slots=True, kw_only=True)
class DivertedSend:
    """Messages of one delivery, and who gets its outcome."""

    target: FragmentAddress
    messages: list[Message]
    listener: CommitListener | None
    item: int

    def keep(self, log: Home) -> None:
        """Write them to the outbox of this store."""
        for message in self.messages:
            post(self.target, message, DIVERTED, log)
        if self.listener is not None:
            self.listener.note(log, self.item)
        log.wake()

    def fail(self, error: ServiceBusError) -> None:
        if self.listener is not None:
            self.listener.failed([self.item], error)


class DetourBeginning(CommitListener):
    """For one fragment. It waits for the open change set of its store."""

    def __init__(self, log: Home, on_end: Callable[[], None]) -> None:
        super().__init__()
        # The store that is going to keep the messages.
        self.log = log
        self._on_end = on_end
        self._sends: list[DivertedSend] = []

    def add(self, send: DivertedSend) -> None:
        self._sends.append(send)

    def committed(self, items: list[int]) -> None:
        self._end()

    def failed(self, items: list[int], error: ServiceBusError) -> None:
        """What was in that commit has taken the detour now: its senders were told
        first."""
        self._end()

    def _end(self) -> None:
        self._on_end()
        for send in self._sends:
            if self.log.is_serving:
                send.keep(self.log)
            else:
                send.fail(ServerBusy())
