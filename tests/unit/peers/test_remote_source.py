"""Messages of another broker on a link that deletes what it receives."""

from typing import cast

from unit.amqp.endpoints import EndpointPair, of_type

from twinbus.amqp.events import (
    DispositionReceived,
    LinkAttached,
    LinkFlow,
    MessageReceived,
)
from twinbus.amqp.link import Link
from twinbus.amqp.messaging import Source, Target
from twinbus.amqp.outcomes import ACCEPTED, Accepted, encode_rejected
from twinbus.errors import MessageLockLost
from twinbus.links.merged_receive_link import MergedReceiveLink
from twinbus.links.output import Output, Outputs
from twinbus.links.refusal import amqp_error
from twinbus.peers.peer_connection import PeerConnection
from twinbus.peers.relay import PeerLink
from twinbus.peers.remote_source import RemoteSource

BODY = b"\x00\x53\x77\xa1\x02hi"


class Owner:
    """The other broker, and the way to it."""

    def __init__(self, output: Output) -> None:
        self.output = output
        self.pair = EndpointPair()
        self.pair.open()
        self._session, self.session = self.pair.begin()
        self.link: Link | None = None
        self._sent_count = 0

    def attach(self, link: PeerLink) -> None:
        link.begin(self._session)

    def accept(self) -> None:
        [attached] = of_type(self.pair.pump().server, LinkAttached)
        self.link = attached.link
        self.link.accept()
        self.pump()

    def left(self, link: PeerLink) -> None:
        """It does not matter here."""

    def pump(self) -> list[DispositionReceived]:
        """What it is told."""
        told: list[DispositionReceived] = []
        way = cast(PeerLink, self._session.context)
        while (events := self.pair.pump()).client or events.server:
            told += of_type(events.server, DispositionReceived)
            for event in events.client:
                if isinstance(event, LinkAttached):
                    way.on_peer_attached(event.link)
                elif isinstance(event, MessageReceived):
                    way.on_peer_message(event)
                elif isinstance(event, DispositionReceived):
                    way.on_peer_disposition(event)
                elif isinstance(event, LinkFlow):
                    way.on_peer_flow(event.link)
            way.on_peer_read()
        return told

    def reserve(self) -> int:
        """A message for the client; the id of its delivery."""
        assert self.link is not None
        assert self.link.credit > 0
        self._sent_count += 1
        return self.link.send(BODY, bytes([self._sent_count]) * 16, False, None)

    def answer(self, delivery_id: int, state: bytes) -> None:
        self.session.send_disposition(False, delivery_id, delivery_id, True, state)
        self.pump()


class World:
    """A client with a link for receive-and-delete, and two brokers."""

    def __init__(self) -> None:
        self._pair = EndpointPair()
        self._pair.open()
        session, _ = self._pair.begin()
        self.client = session.attach_receiver("rx", Source(address="q"), Target())
        [attached] = of_type(self._pair.pump().server, LinkAttached)
        link, output = attached.link, Output(Outputs(), lambda: None)
        self.merged = MergedReceiveLink(link, "q", False, output)
        self.owner = Owner(output)
        self.source = RemoteSource(
            *(self.merged, link, "q", output),
            *(cast(PeerConnection, self.owner), False, {}, []),
        )
        self.merged.join_remote(self.source)
        self.owner.accept()
        link.accept()
        self._pair.pump()

    def give_credit(self, credit: int, *, drain: bool = False) -> None:
        self.client.issue_credit(credit, drain)
        self._pair.pump()
        self.merged.offer_capacity()
        self.owner.pump()

    def received_count(self) -> int:
        return len(of_type(self._pair.pump().client, MessageReceived))


def test_message_is_delivered_when_its_owner_has_deleted_it() -> None:
    world = World()
    world.give_credit(1)
    at = world.owner.reserve()
    [asked] = world.owner.pump()
    assert isinstance(asked.state, Accepted)
    assert world.received_count() == 0
    world.owner.answer(at, ACCEPTED)
    assert world.received_count() == 1


def test_message_that_its_owner_could_not_delete_is_not_awaited() -> None:
    world = World()
    world.give_credit(1)
    at = world.owner.reserve()
    world.owner.pump()
    world.owner.answer(at, encode_rejected(amqp_error(MessageLockLost())))
    assert world.source.promised_count == 0
    # The client's credit is for the next one.
    at = world.owner.reserve()
    world.owner.pump()
    world.owner.answer(at, ACCEPTED)
    assert world.received_count() == 1
