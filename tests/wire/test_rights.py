"""SB-W-20xx: a right ends with its token, its claim, or its rule."""

import pytest

from .codec import Described, Long, Symbol, Ulong
from .frames import ACCEPTED, DETACH, REJECTED, LinkRefused, error_of, terminus
from .management import Cbs, Management, sas_token
from .message import data_message
from .transactions import Controller, send_in

UNAUTHORIZED = "amqp:unauthorized-access"
DESTINATION = Symbol("com.microsoft:transfer-destination-address")
SESSION_FILTER = Symbol("com.microsoft:session-filter")


class Holder:
    """A connection that has shown nothing but the tokens that a test puts."""

    def __init__(self, bus, peer):
        self.bus, self.peer = bus, peer
        self._cbs = Cbs(peer)

    def put(self, path, rule="sendlisten-rule", key="key-of-sendlisten", *, seconds):
        audience = f"sb://localhost/{path}"
        expires_at = self.bus.now().timestamp() + seconds
        token = sas_token(audience, rule, key, expires_at)
        assert self._cbs.put_token(audience, token).status == 202

    def lost(self, link):
        """The condition with which the bus ends a link."""
        handle = link.attached.handle
        detach = self.peer.expect(DETACH, lambda frame: frame.handle == handle)
        return error_of(detach.error).condition

    def still_has(self, link):
        """No other frame of the bus has ended the link by now."""
        handle = link.attached.handle
        ended = [
            frame
            for frame in self.peer.frames
            if frame.code == DETACH and frame.handle == handle
        ]
        return not ended


@pytest.fixture
def holder(bus, anonymous):
    return Holder(bus, anonymous())


def test_links_end_with_their_token(bus, holder, queue):
    """SB-W-2001 sending and receiving."""
    holder.put(queue, seconds=60)
    sender, receiver = holder.peer.sender(queue), holder.peer.receiver(queue)
    bus.advance(60)
    assert holder.lost(sender) == UNAUTHORIZED
    assert holder.lost(receiver) == UNAUTHORIZED


def test_renewed_token_keeps_its_links(bus, holder, queue, make_queue):
    """SB-W-2002 what ends is another's."""
    other = make_queue()
    holder.put(other, seconds=60)
    holder.put(queue, seconds=60)
    ending, sender = holder.peer.sender(other), holder.peer.sender(queue)
    holder.put(queue, seconds=600)
    bus.advance(60)
    assert holder.lost(ending) == UNAUTHORIZED
    sender.send(data_message("x"))


def test_receiver_ends_when_its_token_is_replaced_by_one_without_listen(holder, queue):
    """SB-W-2003 the one that would have ended is gone, and the right with it."""
    holder.put(queue, seconds=60)
    sender, receiver = holder.peer.sender(queue), holder.peer.receiver(queue)
    holder.put(queue, "send-rule", "key-of-send", seconds=600)
    assert holder.lost(receiver) == UNAUTHORIZED
    sender.send(data_message("x"))
    assert holder.still_has(sender)


def test_session_that_is_waited_for_is_not_granted_without_listen(
    bus, holder, make_queue
):
    """SB-W-2004 the attach is refused at once, and does not wait for its time."""
    queue = make_queue(requires_session=True)
    holder.put(queue, seconds=60)
    source = Described(Ulong(0x28), [queue, *[None] * 6, {SESSION_FILTER: None}])
    waiting = holder.peer.send_attach(True, source=source, target=terminus(0x29, None))
    holder.put(queue, "send-rule", "key-of-send", seconds=600)
    with pytest.raises(LinkRefused) as refused:
        holder.peer.answer_to(*waiting)
    assert refused.value.error.condition == UNAUTHORIZED


def test_another_token_that_covers_the_entity_carries_its_links(bus, holder, queue):
    """SB-W-2005 be it for the whole namespace."""
    holder.put(queue, seconds=60)
    holder.put("", seconds=600)
    sender, receiver = holder.peer.sender(queue), holder.peer.receiver(queue)
    holder.put(queue, "send-rule", "key-of-send", seconds=60)
    bus.advance(60)
    sender.send(data_message("x"))
    assert len(receiver.take()) == 1


@pytest.mark.parametrize("ending", ["way", "destination"])
def test_send_via_ends_with_either_token(bus, holder, queue, make_queue, ending):
    """SB-W-2006 that of the way, and that of the destination."""
    paths = {"way": queue, "destination": make_queue()}
    for name, path in paths.items():
        holder.put(path, seconds=60 if name == ending else 600)
    sender = holder.peer.sender(queue, properties={DESTINATION: paths["destination"]})
    sender.send(data_message("x"))
    bus.advance(60)
    assert holder.lost(sender) == UNAUTHORIZED


def test_send_via_ends_when_the_destination_is_replaced(holder, queue, make_queue):
    """SB-W-2007 by a token that only listens."""
    destination = make_queue()
    holder.put(queue, seconds=600)
    holder.put(destination, seconds=600)
    sender = holder.peer.sender(queue, properties={DESTINATION: destination})
    holder.put(destination, "listen-rule", "key-of-listen", seconds=600)
    assert holder.lost(sender) == UNAUTHORIZED


def test_delivery_of_a_lost_link_is_not_settled(bus, holder, queue, connect):
    """SB-W-2008 settling needs the claim that receiving did; the message stays."""
    holder.put(queue, seconds=600)
    holder.peer.sender(queue).send(data_message("x"))
    receiver = holder.peer.receiver(queue)
    (delivery,) = receiver.take()
    holder.put(queue, "send-rule", "key-of-send", seconds=600)
    assert holder.lost(receiver) == UNAUTHORIZED
    receiver.settle(delivery.delivery_id, Described(Ulong(ACCEPTED), []))
    outcome, error = receiver.verdict_of(delivery.delivery_id)
    assert (outcome, error.condition) == (
        REJECTED,
        "com.microsoft:message-lock-lost",
    )
    assert Management(connect(), queue).peek_texts() == ["x"]


def test_request_after_the_token_ended_is_refused(bus, holder, queue):
    """SB-W-2009 with the next request, on links that stay."""
    holder.put(queue, seconds=60)
    management = Management(holder.peer, queue)
    assert management.peek_texts() == []
    bus.advance(60)
    body = {"from-sequence-number": Long(1), "message-count": Long(1)}
    assert management.call("peek-message", body).status == 401


def test_transaction_commits_what_was_allowed_when_it_was_done(
    bus, holder, queue, connect
):
    """SB-W-2010 its parts were checked, the commit needs no claim."""
    holder.put(queue, seconds=60)
    sender, controller = holder.peer.sender(queue), Controller(holder.peer)
    txn_id = controller.declare()
    assert send_in(txn_id, sender, data_message("x")) is None
    bus.advance(60)
    assert holder.lost(sender) == UNAUTHORIZED
    assert controller.commit(txn_id) is None
    assert Management(connect(), queue).peek_texts() == ["x"]


def entity_rule(key, *rights, key_name="own"):
    return {"key_name": key_name, "primary_key": key, "rights": list(rights)}


@pytest.mark.parametrize(
    "rules",
    [[], [entity_rule("second", "Send")], [entity_rule("first", "Listen")]],
    ids=["rule removed", "key changed", "claim removed"],
)
def test_links_end_with_the_rule_that_opened_them(bus, holder, make_queue, rules):
    """SB-W-2011 of an entity, within a second of the change."""
    queue = make_queue(authorization_rules=[entity_rule("first", "Send")])
    other = make_queue(authorization_rules=[entity_rule("first", "Send")])
    for path in (queue, other):
        holder.put(path, "own", "first", seconds=600)
    sender, kept = holder.peer.sender(queue), holder.peer.sender(other)
    bus.update_queue(queue, authorization_rules=rules)
    assert holder.lost(sender) == UNAUTHORIZED
    kept.send(data_message("x"))


def test_links_stay_when_their_rule_is_kept(bus, holder, make_queue, queue):
    """SB-W-2012 whatever else of the rules is changed."""
    mine = make_queue(authorization_rules=[entity_rule("first", "Send")])
    passing = make_queue(authorization_rules=[entity_rule("first", "Send")])
    for path in (mine, passing):
        holder.put(path, "own", "first", seconds=600)
    sender, ending = holder.peer.sender(mine), holder.peer.sender(passing)
    second = {**entity_rule("first", "Send", "Listen"), "secondary_key": "second"}
    bus.update_queue(mine, authorization_rules=[second])
    bus.update_queue(passing, authorization_rules=[])
    assert holder.lost(ending) == UNAUTHORIZED
    sender.send(data_message("x"))
    holder.peer.receiver(mine)


def test_plain_connection_ends_with_the_key_that_it_showed(bus, dial, make_queue):
    """SB-W-2013 the right of SASL PLAIN is its rule's, too."""
    rule = entity_rule("first", "Send", key_name="plain")
    queue = make_queue(authorization_rules=[rule])
    peer = dial()
    assert peer.sasl_plain("plain", "first") == 0
    peer.start()
    sender = peer.sender(queue)
    bus.update_queue(queue, authorization_rules=[{**rule, "primary_key": "second"}])
    detach = peer.expect(DETACH, lambda frame: frame.handle == sender.attached.handle)
    assert error_of(detach.error).condition == UNAUTHORIZED
