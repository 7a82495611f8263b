"""SB-W-3xx: attaching links: what is echoed, what is refused and how."""

import pytest

from .codec import Symbol, Ubyte, Uint, Ulong
from .frames import RECEIVER, SENDER, LinkRefused, terminus
from .message import data_message


def _refusal(attach, *args, **kwargs):
    with pytest.raises(LinkRefused) as refused:
        attach(*args, **kwargs)
    return refused.value


def test_attach_of_a_sender_is_answered_in_full(peer, queue):
    """SB-W-301 name, inverted role, same termini and modes, a max-message-size."""
    link = peer.sender(queue, name="my sender")
    answer = link.attached
    assert (answer.name, answer.role) == ("my sender", RECEIVER)
    assert answer.target.value[0] == queue
    assert answer.source is not None and answer.source.value != []
    assert (answer.snd_settle_mode, answer.rcv_settle_mode) == (0, 0)
    assert type(answer.max_message_size) is Ulong
    assert answer.max_message_size >= 262_144


def test_attach_of_a_receiver_is_answered_in_full(peer, queue):
    """SB-W-302 the same for a receiver, with an initial delivery count of 0."""
    answer = peer.receiver(queue, name="my receiver").attached
    assert (answer.name, answer.role) == ("my receiver", SENDER)
    assert answer.source.value[0] == queue
    assert answer.target is not None and answer.target.value != []
    assert (answer.snd_settle_mode, answer.rcv_settle_mode) == (0, 1)
    assert answer.initial_delivery_count == 0
    assert type(answer.initial_delivery_count) is Uint


def test_settle_modes_of_receive_and_delete_are_echoed(peer, queue):
    """SB-W-303 .NET takes over the modes of the answer."""
    answer = peer.destructive_receiver(queue).attached
    assert (answer.snd_settle_mode, answer.rcv_settle_mode) == (1, 0)


@pytest.mark.parametrize(
    "form",
    [
        "{}",
        "/{}",
        "amqps://localhost/{}",
        "amqps://localhost:5672/{}",
        "amqp://some.host/{}",
        "sb://some.host/{}",
    ],
)
def test_addresses_of_all_forms_reach_the_queue(peer, queue, form):
    """SB-W-304 with scheme and host, with a slash, bare; echoed letter by letter."""
    address = form.format(queue)
    sender = peer.sender(address)
    assert sender.attached.target.value[0] == address
    sender.send(data_message("x"))
    receiver = peer.receiver(address)
    assert receiver.attached.source.value[0] == address
    (delivery,) = receiver.take()
    assert delivery.message.text == "x"


def test_addresses_ignore_letter_case(peer, queue):
    """SB-W-305 upper case finds the same queue and its sub-queue."""
    peer.sender(queue.upper()).send(data_message("x"))
    (delivery,) = peer.receiver(f"AMQPS://HOST/{queue.title()}").take()
    assert delivery.message.text == "x"
    peer.receiver(f"{queue.upper()}/$DEADLETTERQUEUE")


def test_percent_encoded_address_is_decoded(peer, bus):
    """SB-W-306 `a%2Fb` is the queue `a/b`."""
    bus.create_queue("percent/encoded")
    peer.sender("amqps://localhost/percent%2Fencoded").send(data_message("x"))
    (delivery,) = peer.receiver("percent/encoded").take()
    assert delivery.message.text == "x"


@pytest.mark.parametrize("role", ["sender", "receiver"])
def test_unknown_queue_is_not_found(peer, role):
    """SB-W-307 null termini, then detach closed with `amqp:not-found`."""
    refused = _refusal(getattr(peer, role), "no-such-queue")
    assert refused.attach.source is None and refused.attach.target is None
    assert refused.detach.closed is True
    assert refused.error.condition == "amqp:not-found"
    assert "The messaging entity" in refused.error.description
    assert "could not be found" in refused.error.description


@pytest.mark.parametrize("address", ["", "/", "$unknown", "q/$Nonsense", "a//b"])
def test_odd_addresses_are_refused_and_the_session_lives(peer, queue, address):
    """SB-W-308 an address that means nothing is refused; the session goes on."""
    refused = _refusal(peer.receiver, address)
    assert refused.error.condition.startswith(("amqp:", "com.microsoft:"))
    peer.sender(queue).send(data_message("x"))


def test_link_without_terminus_is_refused(peer, queue):
    """SB-W-309 a sender with a null target gets an error, not a crash."""
    refused = _refusal(peer.sender, queue, target=None)
    assert refused.error is not None
    peer.sender(queue).send(data_message("x"))


def test_sending_to_dead_letters_is_not_allowed(peer, queue):
    """SB-W-310 the dead-letter sub-queue takes no sender."""
    refused = _refusal(peer.sender, f"{queue}/$DeadLetterQueue")
    assert refused.error.condition == "amqp:not-allowed"


def test_session_filter_on_a_plain_queue_is_not_allowed(peer, queue):
    """SB-W-311 a session receiver on a queue without sessions is refused."""
    source = terminus(0x28, queue)
    source.value.extend([None] * 6)
    source.value.append({Symbol("com.microsoft:session-filter"): "s"})
    refused = _refusal(peer.receiver, queue, source=source)
    assert refused.error.condition == "amqp:not-allowed"


def test_error_has_three_fields(peer):
    """SB-W-312 condition symbol, description string, info: Python indexes them."""
    refused = _refusal(peer.sender, "no-such-queue")
    assert len(refused.detach.error.value) == 3


def test_credit_follows_the_attach_of_a_sender(peer, queue):
    """SB-W-313 a sender gets generous credit without asking."""
    assert peer.sender(queue).credit >= 100


def test_several_links_share_a_session(peer, make_queue):
    """SB-W-314 links to several queues, both ways, on one session."""
    queues = [make_queue() for _ in range(5)]
    for name in queues:
        peer.sender(name).send(data_message(f"to {name}"))
    for name in queues:
        (delivery,) = peer.receiver(name).take()
        assert delivery.message.text == f"to {name}"


def test_link_name_can_be_used_again_after_detach(peer, queue):
    """SB-W-315 detach closed, attach again under the same name."""
    for _ in range(2):
        peer.receiver(queue, name="again").detach()


def test_mixed_settle_mode_is_accepted(peer, queue):
    """SB-W-316 JavaScript's default (mixed, first) works for a sender."""
    link = peer.sender(queue, snd_settle_mode=Ubyte(2))
    link.send(data_message("x"))
