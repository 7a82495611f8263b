"""Messages that another broker reserves for the requests of one client.

As on links (`remote_source.py`): a reserved message is locked, and the time of its lock
begins when it is *taken*, a disposition with the state `received`. What is not taken is
given back, and was not delivered then. A message that is to be deleted is completed at
the owner before it is handed out.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from twinbus.amqp.errors import AmqpError
from twinbus.amqp.events import DispositionReceived, MessageReceived
from twinbus.amqp.link import Link
from twinbus.amqp.outcomes import ACCEPTED, RELEASED, Accepted
from twinbus.amqp.session import AmqpSession
from twinbus.peers.peer_properties import Properties
from twinbus.peers.relay import TAKEN, PeerLink, attach_reserving, named_in

if TYPE_CHECKING:
    from twinbus.peers.peer_connection import PeerConnection


class ReservedMessages(PeerLink):
    """Those of the fragments that one other broker has."""

    def __init__(
        self,
        channel: "PeerConnection",
        path: str,
        properties: Properties,
        on_news: Callable[[], None],
    ) -> None:
        """`on_news`: a message came, there is none, or the way has ended."""
        super().__init__(channel)
        self._path = path
        self._properties = properties
        self._on_news = on_news
        self._waiting: deque[MessageReceived] = deque()
        # Those that the owner is completing, by its delivery ids.
        self._completing: dict[int, asyncio.Future[bool]] = {}
        self._is_attached = False
        # What the owner is asked for.
        self._credit = 0
        self._is_draining = False
        # The owner had nothing since it was asked for the last time, or is away.
        self.is_drained = False
        self.is_lost = False
        channel.attach(self)

    def attach(self, session: AmqpSession) -> Link:
        return attach_reserving(session, self._path, self._properties)

    # --- for requests ---------------------------------------------------------

    def ask(self, *, drains: bool) -> None:
        """Have a message reserved. `drains`: or be told that there is none."""
        self.is_drained = self.is_lost
        self._credit, self._is_draining = 1, drains
        self._give_credit()

    def rest(self) -> None:
        """Nobody waits now."""
        self._credit, self._is_draining = 0, False
        if self.peer is not None and self.peer.credit > 0:
            self._give_credit()

    def has_some(self) -> bool:
        return bool(self._waiting)

    def take(self) -> MessageReceived:
        """Hand out the first one: its lock begins."""
        message = self._waiting.popleft()
        self._tell(message, TAKEN, is_settled=False)
        return message

    def complete(self) -> tuple[MessageReceived, "asyncio.Future[bool]"]:
        """Have the first one completed; it may be handed out if that is done."""
        message = self._waiting.popleft()
        done = asyncio.get_running_loop().create_future()
        self._completing[message.delivery_id] = done
        self._tell(message, ACCEPTED, is_settled=False)
        return message, done

    def give_back(self) -> None:
        while self._waiting:
            self._tell(self._waiting.popleft(), RELEASED, is_settled=True)

    def close(self) -> None:
        self.give_back()
        self._end()
        self.leave()

    def _give_credit(self) -> None:
        if self.peer is not None and self._is_attached:
            self.peer.issue_credit(self._credit, self._is_draining)
            self._channel.output.mark()

    def _tell(
        self, message: MessageReceived, state: bytes, *, is_settled: bool
    ) -> None:
        at = message.delivery_id
        if self.peer is not None:
            self.peer.session.send_disposition(True, at, at, is_settled, state)
            self._channel.output.mark()

    # --- from the owner -------------------------------------------------------

    def on_peer_attached(self, peer: Link) -> None:
        self._is_attached = True
        if self._credit:
            self._give_credit()

    def on_peer_message(self, message: MessageReceived) -> None:
        self._waiting.append(message)
        self._on_news()

    def on_peer_flow(self, peer: Link) -> None:
        if self._is_draining and not peer.drain:
            self._is_draining = False
            self.is_drained = True
            self._on_news()

    def on_peer_disposition(self, event: DispositionReceived) -> None:
        if event.peer_is_receiver:
            return
        for at in named_in(event, self._completing):
            self._answer(at, isinstance(event.state, Accepted))

    def _answer(self, at: int, is_done: bool) -> None:
        done = self._completing.pop(at)
        if not done.done():
            done.set_result(is_done)

    def on_peer_lost(self, error: AmqpError) -> None:
        """What was reserved is the owner's again."""
        self.leave()
        self._end()
        self._on_news()

    def _end(self) -> None:
        self.is_lost = self.is_drained = True
        self._waiting.clear()
        for at in list(self._completing):
            self._answer(at, is_done=False)
