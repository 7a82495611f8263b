"""SB-W-1xx: protocol headers, SASL, open, heartbeats, and clients that misbehave."""

import struct

import pytest

from .codec import Uint
from .frames import (
    AMQP_HEADER,
    ATTACH,
    BEGIN,
    CLOSE,
    DETACH,
    EMPTY,
    END,
    OPEN,
    RECEIVER,
    SASL_HEADER,
    LinkRefused,
    terminus,
)
from .message import data_message


def test_mechanisms_for_all_clients_are_offered(dial):
    """SB-W-101 MSSBCBS (.NET), ANONYMOUS, PLAIN and EXTERNAL are offered."""
    peer = dial()
    assert peer.sasl("ANONYMOUS") == 0
    assert {"MSSBCBS", "ANONYMOUS", "PLAIN", "EXTERNAL"} <= set(peer.mechanisms)


@pytest.mark.parametrize("mechanism", ["ANONYMOUS", "MSSBCBS"])
@pytest.mark.parametrize("response", [b"", b"\x00RootManageSharedAccessKey"])
def test_anonymous_and_mssbcbs_succeed_without_challenge(dial, mechanism, response):
    """SB-W-102 both mechanisms succeed at once, whatever the initial response."""
    peer = dial()
    assert peer.sasl(mechanism, response) == 0
    peer.start()


def test_plain_with_the_key_may_send_and_receive(connect, queue):
    """SB-W-103 PLAIN with key name and key gives the rights of the rule everywhere."""
    peer = connect()
    peer.sender(queue).send(data_message("x"))
    (delivery,) = peer.receiver(queue).take()
    assert delivery.message.text == "x"


@pytest.mark.parametrize(
    ("user", "password"),
    [(None, "wrong"), ("nobody", None), (None, ""), ("", ""), ("nobody", "nothing")],
)
def test_plain_with_a_wrong_key_is_refused(bus, dial, user, password):
    """SB-W-104 a wrong user or password: outcome auth (1), and no connection."""
    user = bus.key_name if user is None else user
    password = bus.key if password is None else password
    assert dial().sasl_plain(user, password) == 1


def test_refused_sasl_does_not_open_the_door(bus, dial):
    """SB-W-105 going on after a refused PLAIN gets no open from the bus."""
    peer = dial()
    assert peer.sasl_plain(bus.key_name, "wrong") == 1
    try:
        peer.socket.sendall(AMQP_HEADER)
        peer.wait_closed()
    except ConnectionError:
        pass
    assert OPEN not in {frame.code for frame in peer.frames}


def test_plain_gives_only_the_claims_of_its_rule(bus, dial, queue):
    """SB-W-106 PLAIN with a Listen key: receiving yes, sending no."""
    text = bus.connection_string_for("Listen")
    settings = dict(part.split("=", 1) for part in text.strip(";").split(";"))
    peer = dial()
    name, key = settings["SharedAccessKeyName"], settings["SharedAccessKey"]
    assert peer.sasl_plain(name, key) == 0
    peer.start()
    peer.receiver(queue)
    with pytest.raises(LinkRefused) as refused:
        peer.sender(queue)
    assert refused.value.error.condition == "amqp:unauthorized-access"


def test_open_of_the_bus_suits_all_clients(dial, bus):
    """SB-W-107 container id, frame size, channels and idle time-out of the open."""
    peer = dial()
    peer.sasl_plain(bus.key_name, bus.key)
    opened = peer.start()
    assert opened.container_id
    assert opened.max_frame_size >= 512
    assert opened.channel_max >= 255
    # Python sends heartbeats every 30 s at half of this value.
    assert 70_000 <= opened.idle_time_out <= 240_000


def test_begin_of_the_bus_names_the_channel_of_the_client(peer):
    """SB-W-108 the begin has remote-channel and room for many transfers."""
    (begun,) = [frame for frame in peer.frames if frame.code == BEGIN]
    assert begun.remote_channel == 0
    assert begun.incoming_window >= 1000
    assert begun.handle_max is None or begun.handle_max >= 255


def test_heartbeats_come_within_half_of_the_idle_time_out(connect):
    """SB-W-109 a client that asks for heartbeats gets empty frames, again and again."""
    peer = connect(idle_time_out=1000)
    for _ in range(3):
        peer.expect(EMPTY, seconds=3)


def test_heartbeats_of_the_client_are_accepted(peer, queue):
    """SB-W-110 empty frames are taken in silence."""
    for _ in range(5):
        peer.send_empty_frame()
    peer.sender(queue).send(data_message("x"))


def test_connection_is_closed_in_an_orderly_way(peer):
    """SB-W-111 a close is answered by a close without error."""
    peer.send(CLOSE, [])
    assert peer.expect(CLOSE).error is None
    peer.wait_closed()


def test_frames_for_an_ended_session_are_ignored(peer, queue):
    """SB-W-112 detach after end, as the Python SDK does it, is not an error."""
    link = peer.receiver(queue)
    peer.send(END, [])
    peer.send(DETACH, [Uint(link.handle), True])
    peer.send(CLOSE, [])
    assert peer.expect(END).error is None
    assert peer.expect(CLOSE).error is None


def test_pipelined_opening_is_answered(dial):
    """SB-W-113 header, open, begin and attach before the bus has answered any."""
    peer = dial()
    assert peer.sasl("ANONYMOUS") == 0
    peer.socket.sendall(AMQP_HEADER)
    peer.send(OPEN, ["wire-test", "localhost", Uint(65536)])
    peer.send(BEGIN, [None, Uint(0), Uint(1000), Uint(1000)])
    source, target = terminus(0x28, "$cbs"), terminus(0x29, "$cbs")
    peer.send(ATTACH, ["cbs", Uint(2), RECEIVER, None, None, source, target])
    peer.read_header(AMQP_HEADER)
    assert [peer.expect(code).code for code in (OPEN, BEGIN, ATTACH)]
    assert peer.frames[-1].name == "cbs"


@pytest.mark.parametrize(
    "noise",
    [
        b"NONSENSE" * 20,
        b"AMQP\x09\x09\x09\x09",
        b"\x00" * 64,
        SASL_HEADER + b"\xff" * 64,
        SASL_HEADER + struct.pack(">IBBH", 0x7FFFFFFF, 2, 1, 0),
        SASL_HEADER + struct.pack(">IBBH", 4, 2, 1, 0),
    ],
    ids=["text", "header", "zeros", "garbage", "oversize", "undersize"],
)
def test_noise_closes_only_its_own_connection(dial, peer, queue, noise):
    """SB-W-114 bad bytes end in a closed connection; a neighbour does not notice."""
    noisy = dial()
    noisy.socket.sendall(noise)
    noisy.socket.settimeout(15)
    try:
        while noisy.socket.recv(4096):
            pass
    except ConnectionResetError:
        pass
    peer.sender(queue).send(data_message("x"))


def test_oversize_frame_closes_the_connection(connect, peer, queue):
    """SB-W-115 a frame beyond the announced size: closed, with an error if at all."""
    rude = connect()
    rude.socket.sendall(struct.pack(">IBBH", rude.max_frame_size * 16, 2, 0, 0))
    rude.socket.sendall(b"\x00" * 4096)
    rude.wait_closed()
    peer.sender(queue).send(data_message("x"))


def test_abrupt_end_leaves_other_connections_alone(connect, peer, queue):
    """SB-W-116 a connection that vanishes in the middle of a frame."""
    gone = connect()
    gone.socket.sendall(struct.pack(">IBBH", 100, 2, 0, 0) + b"half a fr")
    gone.socket.close()
    peer.sender(queue).send(data_message("x"))
