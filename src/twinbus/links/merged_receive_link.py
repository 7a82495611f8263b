"""One link that delivers the messages of several fragments.

The client does not know of fragments. Its link has one pool of credit. Each fragment
has a receiver of its own (`ReceiveLink`), which delivers on the same link while there
is credit. A fragment holds nothing for the link: a message is locked when it is sent.

When the client gives credit the fragments are asked in turn, each time beginning with
another one, so that none is preferred. A drain is answered when all fragments have
nothing left; fragments whose stores are away are not waited for. Fragments at other
brokers are parts of the link, too (`remote_part.py`).
"""

from typing import final

from twinbus.amqp.link import Link
from twinbus.amqp.session import AmqpSession
from twinbus.broker.fragment import Fragment
from twinbus.errors import ServiceBusError
from twinbus.links.output import Output
from twinbus.links.receive_link import ReceiveLink, ReceivePool, forget_deliveries
from twinbus.links.refusal import amqp_error
from twinbus.links.remote_part import RemotePart


@final
class MergedReceiveLink(ReceivePool):
    """Delivers the messages of one partitioned entity to one client."""

    def __init__(self, link: Link, path: str, peek_lock: bool, output: Output) -> None:
        super().__init__(link)
        self._link: Link = link
        # The path that authorization is checked for.
        self.path: str = path
        self._peek_lock: bool = peek_lock
        self._output: Output = output
        self._receivers: list[ReceiveLink] = []
        # Fragments at other brokers, one for each of those.
        self._remotes: list[RemotePart] = []
        # Which is asked first for the next credit.
        self._first: int = 0

    def join(self, fragment: Fragment, actor: int, reserves: bool = False) -> None:
        """Deliver messages of this fragment, too."""
        self._receivers.append(
            ReceiveLink(
                *(self._link, fragment, actor, self._peek_lock, self._output),
                pool=self,
                reserves=reserves,
            )
        )

    def join_remote(self, remote: RemotePart) -> None:
        """Deliver messages of another broker, too."""
        self._remotes.append(remote)

    # --- delivering -----------------------------------------------------------

    def offer_capacity(self) -> None:
        """Credit, window or socket allow more messages than before."""
        receivers = self._receivers
        count = len(receivers)
        if self._link.drain:
            for receiver in receivers:
                receiver.is_drained = False
        first = self._first
        self._first = (first + 1) % (count + len(self._remotes))
        if first >= count:
            self._offer_to_remotes()
        for step in range(count):
            receivers[(first + step) % count].offer_capacity()
        if first < count:
            self._offer_to_remotes()

    def _offer_to_remotes(self) -> None:
        for remote in self._remotes:
            remote.offer_capacity()

    def promised_to_others(self, receiver: ReceiveLink) -> int:
        promised_count = -receiver.promised_count
        for other in self._receivers:
            promised_count += other.promised_count
        for remote in self._remotes:
            promised_count += remote.promised_count
        return promised_count

    def promised_in_all(self) -> int:
        """Messages that the link will get from any fragment, after a commit."""
        promised_count = 0
        for receiver in self._receivers:
            promised_count += receiver.promised_count
        for remote in self._remotes:
            promised_count += remote.promised_count
        return promised_count

    def served(self, receiver: ReceiveLink) -> None:
        if self._link.drain:
            receiver.is_drained = True
            self._answer_drain()

    def remote_served(self, remote: RemotePart) -> None:
        """Another broker has no more messages for the link."""
        if self._link.drain:
            self._answer_drain()

    def _answer_drain(self) -> None:
        for receiver in self._receivers:
            if not receiver.is_drained and receiver.is_serving():
                return
        for remote in self._remotes:
            if not remote.is_drained or remote.promised_count:
                return
        self._note_empty()
        self._link.drained()
        self._output.mark()

    def _note_empty(self) -> None:
        """One receive, however many fragments were asked."""
        is_empty = self._link.credit > 0
        for receiver in self._receivers:
            is_empty = is_empty and receiver.is_empty_handed
            receiver.is_empty_handed = True
        if is_empty and self._receivers:
            self._receivers[0].log_empty()

    def settled_some(self) -> None:
        for receiver in self._receivers:
            receiver.go_on()

    def tick(self, swept: set[AmqpSession]) -> None:
        """As of a link with one fragment."""
        for receiver in self._receivers:
            receiver.tick(swept)
        for remote in self._remotes:
            remote.tick()

    # --- ending ---------------------------------------------------------------

    def detach(self, error: ServiceBusError) -> None:
        """The entity was deleted, or can no longer be received from."""
        self._link.detach(amqp_error(error))
        self.close()
        self._output.mark()

    def close(self) -> None:
        """The link was closed. Its locks stay until they run out or are settled."""
        for receiver in self._receivers:
            receiver.close()
        for remote in self._remotes:
            remote.close()

    def forget_deliveries(self) -> None:
        """The client detached the link: see `ReceiveLink.forget_deliveries`."""
        for receiver in self._receivers:
            receiver.give_back_reserved()
        forget_deliveries(self._link.session, self.receivers())

    def receivers(self) -> set[ReceiveLink]:
        """The receivers that may hold locks."""
        return set(self._receivers)

    @property
    def amqp_session(self) -> AmqpSession:
        return self._link.session
