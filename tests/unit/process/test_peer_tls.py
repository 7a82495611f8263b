"""Who has the key of the cluster can connect, and nobody else."""

import ssl

import pytest

from twinbus.clock import SystemClock
from twinbus.process.peer_tls import PeerTls, peer_tls

# The library compares certificates with the clock of the machine.
NOW = SystemClock().now()
DAY_MS = 86_400_000
KEY = bytes(range(32))


def _shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> bytes:
    """What the server reads of what the client writes. Raises ssl.SSLError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    accepted = server.wrap_bio(to_server, to_client, server_side=True)
    connected = client.wrap_bio(to_client, to_server, server_hostname="10.0.0.1")
    for _ in range(5):
        for end in (connected, accepted):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    connected.write(b"hello")
    return accepted.read()


@pytest.fixture(scope="module")
def ours() -> PeerTls:
    return peer_tls(KEY, NOW)


def test_brokers_with_the_same_key_trust_each_other(ours: PeerTls) -> None:
    """Their clocks differ, and they were started at different times."""
    other = peer_tls(KEY, NOW + DAY_MS // 2)
    assert _shake_hands(ours.accepting, other.connecting) == b"hello"
    assert _shake_hands(other.accepting, ours.connecting) == b"hello"


def test_brokers_with_another_key_are_strangers(ours: PeerTls) -> None:
    stranger = peer_tls(KEY[::-1], NOW)
    with pytest.raises(ssl.SSLError):
        _shake_hands(ours.accepting, stranger.connecting)
    with pytest.raises(ssl.SSLError):
        _shake_hands(stranger.accepting, ours.connecting)


def test_client_without_a_certificate_is_a_stranger(ours: PeerTls) -> None:
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_mode = ssl.CERT_NONE
    with pytest.raises(ssl.SSLError):
        _shake_hands(ours.accepting, client)


def test_old_protocol_is_refused(ours: PeerTls) -> None:
    assert ours.accepting.minimum_version is ssl.TLSVersion.TLSv1_3
    assert ours.connecting.minimum_version is ssl.TLSVersion.TLSv1_3


def test_brokers_of_one_machine_need_no_tls(ours: PeerTls) -> None:
    assert ours.to("127.0.0.1:7000") is None
    assert ours.accepting_at("127.0.0.1:7000") is None
    assert ours.to("10.0.0.1:7000") is ours.connecting
    assert ours.accepting_at("10.0.0.1:7000") is ours.accepting
