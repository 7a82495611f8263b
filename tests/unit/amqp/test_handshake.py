"""Protocol headers and SASL, byte by byte."""

import pytest
from unit.amqp.endpoints import EndpointPair, of_type

from twinbus.amqp.connection import Connection, Role
from twinbus.amqp.events import ConnectionClosed, ConnectionOpened, SaslInitReceived
from twinbus.amqp.handshake import AMQP_HEADER, SASL_HEADER
from twinbus.amqp.sasl import (
    SaslChallenge,
    SaslCredentials,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    anonymous,
    decode_sasl,
    mssbcbs,
    plain,
    sasl_frame,
)


def server(*, require_sasl: bool = True) -> Connection:
    return Connection(Role.SERVER, "server", require_sasl=require_sasl)


def test_the_header_is_answered_before_the_mechanisms() -> None:
    bus = server()
    assert bus.receive_data(SASL_HEADER, 0) == []
    answer = bus.data_to_send()
    assert answer[:8] == SASL_HEADER
    mechanisms = decode_sasl(answer[16:])
    assert isinstance(mechanisms, SaslMechanisms)
    assert set(mechanisms.sasl_server_mechanisms) == {
        "MSSBCBS",
        "PLAIN",
        "ANONYMOUS",
        "EXTERNAL",
    }


@pytest.mark.parametrize("header", [b"AMQP\x02\x01\x00\x00", b"AMQP\x03\x00\x09\x01"])
def test_a_wrong_header_is_answered_with_ours_and_the_end(header: bytes) -> None:
    bus = server()
    [closed] = bus.receive_data(header, 0)
    assert isinstance(closed, ConnectionClosed)
    assert bus.closed
    assert bus.data_to_send() == SASL_HEADER


@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\n", b"\x16\x03\x01", b"\0"])
def test_garbage_is_refused_at_its_first_bytes(garbage: bytes) -> None:
    bus = server()
    bus.receive_data(garbage, 0)
    assert bus.closed
    assert bus.data_to_send() == SASL_HEADER
    assert bus.receive_data(SASL_HEADER, 0) == []
    assert bus.data_to_send() == b""


def test_a_bare_amqp_header_is_a_matter_of_settings() -> None:
    strict, lenient = server(), server(require_sasl=False)
    strict.receive_data(AMQP_HEADER, 0)
    assert strict.closed
    assert strict.data_to_send() == SASL_HEADER
    lenient.receive_data(AMQP_HEADER, 0)
    assert lenient.data_to_send() == AMQP_HEADER


@pytest.mark.parametrize(
    "credentials",
    [
        anonymous(),
        mssbcbs(),
        plain("user", "key"),
        SaslCredentials("ANONYMOUS", b"\0name"),
    ],
)
@pytest.mark.parametrize("chunk_size", [1, 3, 65536])
def test_a_client_gets_through(credentials: SaslCredentials, chunk_size: int) -> None:
    client = Connection(Role.CLIENT, "c", hostname="bus.test", sasl=credentials)
    pair = EndpointPair(client=client, server=server(), chunk_size=chunk_size)
    client.open()
    events = pair.pump()
    [init] = of_type(events.server, SaslInitReceived)
    assert init.mechanism == credentials.mechanism
    assert init.initial_response == credentials.initial_response
    assert init.hostname == "bus.test"
    [opened] = of_type(events.server, ConnectionOpened)
    assert (opened.container_id, opened.hostname) == ("c", "bus.test")
    [answered] = of_type(events.client, ConnectionOpened)
    assert answered.container_id == "server"


def test_what_comes_behind_the_init_waits_for_the_outcome() -> None:
    bus = server()
    init = sasl_frame(SaslInit(mechanism="ANONYMOUS"))
    [event] = bus.receive_data(SASL_HEADER + init + AMQP_HEADER, 0)
    assert isinstance(event, SaslInitReceived)
    bus.data_to_send()
    assert bus.sasl_outcome(True) == []
    assert bus.data_to_send() == sasl_frame(SaslOutcome(code=0)) + AMQP_HEADER


def test_a_refused_client_is_told_and_left() -> None:
    client = Connection(Role.CLIENT, "c", sasl=plain("user", "wrong"))
    bus = server()
    bus.receive_data(client.data_to_send(), 0)
    client.receive_data(bus.data_to_send(), 0)
    bus.receive_data(client.data_to_send(), 0)
    [refused] = bus.sasl_outcome(False)
    assert isinstance(refused, ConnectionClosed)
    assert bus.closed
    [closed] = client.receive_data(bus.data_to_send(), 0)
    assert isinstance(closed, ConnectionClosed)
    assert closed.error is not None
    assert closed.error.condition == "amqp:unauthorized-access"


def test_a_mechanism_that_is_not_offered_is_refused() -> None:
    bus = server()
    bus.receive_data(SASL_HEADER + sasl_frame(SaslInit(mechanism="SCRAM")), 0)
    assert bus.closed
    assert bus.data_to_send().endswith(sasl_frame(SaslOutcome(code=1)))


def test_a_client_whose_mechanism_is_missing_gives_up() -> None:
    client = Connection(Role.CLIENT, "c", sasl=mssbcbs())
    offer = sasl_frame(SaslMechanisms(sasl_server_mechanisms=("PLAIN",)))
    [closed] = client.receive_data(SASL_HEADER + offer, 0)
    assert isinstance(closed, ConnectionClosed)
    assert closed.error is not None
    assert "MSSBCBS" in closed.error.description


def test_a_client_does_not_take_a_challenge() -> None:
    client = Connection(Role.CLIENT, "c", sasl=anonymous())
    challenge = sasl_frame(SaslChallenge(challenge=b"?"))
    [closed] = client.receive_data(SASL_HEADER + challenge, 0)
    assert isinstance(closed, ConnectionClosed)


def test_a_client_without_sasl_gives_up_on_a_server_that_wants_it() -> None:
    client = Connection(Role.CLIENT, "c")
    [closed] = client.receive_data(SASL_HEADER, 0)
    assert isinstance(closed, ConnectionClosed)


@pytest.mark.parametrize(
    "frame",
    [
        sasl_frame(SaslOutcome(code=0)),
        b"\x00\x00\x00\x08\x02\x00\x00\x00",
        b"\x00\x00\x00\x08\x01\x01\x00\x00",
        b"\x7f\xff\xff\xff\x02\x01\x00\x00",
        sasl_frame(SaslInit(mechanism="PLAIN"))[:-1] + b"\xff",
    ],
)
def test_a_wrong_sasl_frame_ends_the_connection(frame: bytes) -> None:
    bus = server()
    [closed] = bus.receive_data(SASL_HEADER + frame, 0)
    assert isinstance(closed, ConnectionClosed)
    assert bus.closed
