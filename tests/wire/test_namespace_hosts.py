"""SB-W-24xx: which namespace is meant: by sasl-init, open, SNI, Host or the port."""

import http.client
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from twinbus.testing import Bus
from twinbus.testing.bus_namespace import BusNamespace

from .frames import CLOSE, DETACH
from .management import Cbs, sas_token
from .message import data_message
from .peer import Peer

QUEUE = "orders"
Dial = Callable[..., Peer]


@pytest.fixture(scope="module")
def bus() -> Iterator[Bus]:
    """With two namespaces besides the default one; all have the same queue."""
    with Bus(tls=True) as running:
        for owner in (running, running.namespace("shop"), running.namespace("lab")):
            owner.create_queue(QUEUE)
        yield running


@pytest.fixture
def shop(bus: Bus) -> BusNamespace:
    return bus.namespace("shop")


@pytest.fixture
def dial(bus: Bus) -> Iterator[Dial]:
    with ExitStack() as stack:
        yield lambda port=0: stack.enter_context(Peer(port or bus.port))


def texts(bus: Bus, name: str) -> int:
    """Messages in the queue of a namespace."""
    found = bus.server.namespaces.named(name)
    assert found is not None
    return found.queue(QUEUE).counts().active


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("shop.example.com", "shop.example.com"),
        ("shop.example.com:5671", "SHOP"),
        ("shop.localhost", "localhost"),
        ("shop.localhost", None),
        ("shop.localhost", "127.0.0.1"),
    ],
)
def test_host_of_sasl_init_decides_when_it_comes_with_a_key(
    bus: Bus, shop: BusNamespace, dial: Dial, first: str, second: str | None
) -> None:
    """SB-W-2401 the key is that of the namespace named there; `open` may be silent."""
    before = texts(bus, "shop")
    peer = dial()
    assert peer.sasl_plain(shop.key_name, shop.key, first) == 0
    peer.start(host=second)
    peer.sender(QUEUE).send(data_message("x"))
    assert texts(bus, "shop") == before + 1
    assert texts(bus, "twinbus") == 0


@pytest.mark.parametrize(
    ("key_of", "host"),
    [
        ("shop", "lab.localhost"),
        ("shop", "localhost"),
        ("shop", "twinbus.localhost"),
        ("shop", None),
        ("twinbus", "shop.localhost"),
        ("lab", "shop.localhost"),
    ],
)
def test_key_of_one_namespace_opens_no_other(
    bus: Bus, dial: Dial, key_of: str, host: str | None
) -> None:
    """SB-W-2402 PLAIN is refused, whatever the host name."""
    key = bus.key if key_of == "twinbus" else bus.namespace(key_of).key
    assert dial().sasl_plain(bus.key_name, key, host) == 1


@pytest.mark.parametrize("second", ["lab.localhost", "twinbus.localhost"])
def test_open_for_another_namespace_than_the_key_is_refused(
    bus: Bus, shop: BusNamespace, dial: Dial, second: str
) -> None:
    """SB-W-2403 the connection is closed with an error, and no link is attached."""
    peer = dial()
    assert peer.sasl_plain(shop.key_name, shop.key, "shop.localhost") == 0
    with pytest.raises((AssertionError, OSError)):
        peer.start(host=second)
        peer.sender(QUEUE)
    closed = [frame for frame in peer.frames if frame.code == CLOSE]
    assert closed and "not-allowed" in str(closed[0].error)


def test_key_shown_to_the_default_one_does_not_lead_to_another(
    bus: Bus, dial: Dial
) -> None:
    """SB-W-2404 PLAIN with a silent host, then `open` for another namespace."""
    peer = dial()
    assert peer.sasl_plain(bus.key_name, bus.key, "127.0.0.1") == 0
    with pytest.raises((AssertionError, OSError)):
        peer.start(host="shop.localhost")
        peer.sender(QUEUE)
    assert [frame for frame in peer.frames if frame.code == CLOSE]


def test_open_decides_without_a_key(bus: Bus, shop: BusNamespace, dial: Dial) -> None:
    """SB-W-2405 as SDKs with another address do: sasl-init has that address."""
    for mine, theirs in ((shop.key, bus.key), (bus.key, shop.key)):
        host = "shop.localhost" if mine == shop.key else "localhost"
        for key, expected in ((theirs, 401), (mine, 202)):
            peer = dial()
            assert peer.sasl("ANONYMOUS", host="127.0.0.1:5672") == 0
            peer.start(host=host)
            resource = f"sb://{host}/{QUEUE}"
            token = sas_token(resource, bus.key_name, key, bus.now().timestamp() + 600)
            assert Cbs(peer).put_token(resource, token).status == expected


def test_port_decides_where_no_name_does(
    bus: Bus, shop: BusNamespace, dial: Dial
) -> None:
    """SB-W-2406 a port of its own; a name of another namespace there counts more."""
    peer = dial(shop.port)
    assert peer.sasl_plain(shop.key_name, shop.key, "127.0.0.1") == 0
    peer.start(host="localhost")
    before = texts(bus, "shop")
    peer.sender(QUEUE).send(data_message("x"))
    assert texts(bus, "shop") == before + 1
    assert dial(shop.port).sasl_plain(bus.key_name, bus.key, "localhost") == 1
    other = dial(shop.port)
    assert other.sasl_plain(bus.key_name, bus.key, "twinbus.localhost") == 0


def test_wrong_keys_are_counted_for_each_namespace(bus: Bus) -> None:
    """SB-W-2407 who has guessed at one is not kept out of another."""
    with Bus(settings={"max_failed_attempts": 3}) as guarded:
        shop = guarded.namespace("shop")
        for _ in range(5):
            with Peer(guarded.port) as peer:
                assert peer.sasl_plain(shop.key_name, "wrong", "shop.localhost") == 1
        with Peer(guarded.port) as peer:
            assert peer.sasl_plain(shop.key_name, shop.key, "shop.localhost") == 1
        with Peer(guarded.port) as peer:
            assert peer.sasl_plain(guarded.key_name, guarded.key, "localhost") == 0


def test_connections_to_a_removed_namespace_end(bus: Bus, dial: Dial) -> None:
    """SB-W-2408 its links at once, the connection within about a second."""
    gone = bus.namespace("gone")
    gone.create_queue(QUEUE)
    peer = dial()
    assert peer.sasl_plain(gone.key_name, gone.key, "gone.localhost") == 0
    peer.start(host="gone.localhost")
    peer.sender(QUEUE).send(data_message("x"))
    gone.remove()
    peer.expect(DETACH)
    assert "gone" in str(peer.expect(CLOSE).error)
    assert dial().sasl_plain(gone.key_name, gone.key, "gone.localhost") == 1


# --- HTTP -----------------------------------------------------------------------


def ask(
    bus: Bus, host: str, key: str, *, port: int = 0, server_name: str = ""
) -> tuple[int, str]:
    """Describe the queue over HTTP; with a name for SNI over TLS."""
    token = sas_token(
        f"http://{host}/{QUEUE}", bus.key_name, key, bus.now().timestamp() + 600
    )
    connection = http.client.HTTPConnection("127.0.0.1", port or bus.port, timeout=15)
    if server_name:
        context = ssl.create_default_context(cafile=str(bus.ca_file))
        context.check_hostname = False
        raw = socket.create_connection(("127.0.0.1", port or bus.port), 15)
        connection.sock = context.wrap_socket(raw, server_hostname=server_name)
    try:
        headers = {"Authorization": token, "Host": host}
        connection.request("GET", f"/{QUEUE}?api-version=2021-05", None, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_host_header_decides(bus: Bus, shop: BusNamespace) -> None:
    """SB-W-2409 each key opens the administration of its own namespace."""
    keys = {"localhost": bus.key, "shop.localhost": shop.key}
    for host in keys:
        for of, key in keys.items():
            assert ask(bus, host, key)[0] == (200 if of == host else 401)
    assert ask(bus, "127.0.0.1", shop.key, port=shop.port)[0] == 200
    assert ask(bus, "127.0.0.1", bus.key, port=shop.port)[0] == 401


def test_sni_decides_where_nothing_else_does(bus: Bus, shop: BusNamespace) -> None:
    """SB-W-2410 and a `Host` that contradicts it is answered with 421."""
    name = "shop.localhost"
    assert ask(bus, "127.0.0.1", shop.key, server_name=name)[0] == 200
    assert ask(bus, name, shop.key, server_name=name)[0] == 200
    assert ask(bus, name, shop.key, server_name="proxy.localhost")[0] == 200
    status, text = ask(bus, "lab.localhost", shop.key, server_name=name)
    assert status == 421 and "two namespaces" in text


def test_sni_and_open_must_not_contradict(bus: Bus, shop: BusNamespace) -> None:
    """SB-W-2411 over AMQP."""
    context = ssl.create_default_context(cafile=str(bus.ca_file))
    context.check_hostname = False
    for host, code in (("shop.localhost", 0), ("lab.localhost", 1)):
        with Peer(bus.port) as peer:
            peer.socket = context.wrap_socket(
                peer.socket, server_hostname="shop.localhost"
            )
            assert peer.sasl_plain(shop.key_name, shop.key, host) == code


def test_requests_about_the_server_are_for_the_default_namespace(
    bus: Bus, shop: BusNamespace
) -> None:
    """SB-W-2412 a manager of another one can neither list nor make any."""
    for host, key, status in (
        ("localhost", bus.key, 200),
        ("localhost", shop.key, 401),
        ("shop.localhost", shop.key, 400),
    ):
        token = sas_token(
            f"http://{host}/", bus.key_name, key, bus.now().timestamp() + 600
        )
        connection = http.client.HTTPConnection("127.0.0.1", bus.port, timeout=15)
        headers = {"Authorization": token, "Host": host}
        connection.request("GET", "/$namespaces", None, headers)
        assert connection.getresponse().status == status
        connection.close()
