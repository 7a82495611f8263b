"""AMQP over WebSockets by the SDK: plain and secure, through a proxy, and every end.

The bus is the same behind it, so these cases are about the way there; what messages do
is in the other modules.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage, TransportType
from azure.servicebus.exceptions import ServiceBusConnectionError, ServiceBusError

from twinbus.testing import Bus

from .connect_proxy import ConnectProxy
from .sdk import ARRIVAL_SECONDS, SyncSdk

# The SDK uses what newer versions of aiohttp will not have any more.
pytestmark = [
    # Nor does it close the session of a connection that was refused.
    pytest.mark.filterwarnings(
        "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
    ),
    pytest.mark.filterwarnings("ignore:ssl=None is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The 'proxy_auth' param:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:BasicAuth is deprecated:DeprecationWarning"),
]

MakeClient = Callable[..., Any]


@pytest.fixture(scope="module")
def bus() -> Iterator[Bus]:
    with Bus(tls=True) as running:
        yield running


@pytest.fixture(params=["ws", "wss"])
def connect(request: pytest.FixtureRequest, bus: Bus, sdk: SyncSdk) -> MakeClient:
    """Makes a client that comes by WebSocket, as people write it."""
    secure: dict[str, Any] = {"connection_verify": str(bus.ca_file)}
    is_secure = request.param == "wss"

    def make(connection_string: str = "", **options: Any) -> Any:
        text = connection_string or bus.connection_string
        if is_secure:
            text = text.replace("UseDevelopmentEmulator=true", "")
            options = {**secure, **options}
        return sdk.client(
            text,
            transport_type=TransportType.AmqpOverWebsocket,
            custom_endpoint_address=f"sb://localhost:{bus.server.port}",
            **options,
        )

    return make


def test_messages_of_all_sizes_go_and_come(
    connect: MakeClient, sdk: SyncSdk, queue: str
) -> None:
    """SB-W-001 The largest takes several frames of AMQP, and of WebSockets."""
    client = connect()
    sizes = (0, 1, 125, 126, 40_000, 66_000, 200_000)
    sender = sdk.sender(queue, client=client)
    for size in sizes:
        sender.send_messages(ServiceBusMessage(b"x" * size))
    receiver = sdk.receiver(queue, client=client)
    found: list[int] = []
    while len(found) < len(sizes):
        received = receiver.receive_messages(10, max_wait_time=ARRIVAL_SECONDS)
        assert received
        for one in received:
            found.append(sum(map(len, one.body)))
            receiver.complete_message(one)
    assert found == list(sizes)
    assert receiver.peek_messages() == []


def test_requests_go_over_a_websocket(
    connect: MakeClient, sdk: SyncSdk, queue: str
) -> None:
    """SB-W-002 Peek, schedule, cancel: links of requests and responses."""
    client = connect()
    sender = sdk.sender(queue, client=client)
    later = ServiceBusMessage("later")
    due = datetime.now(UTC) + timedelta(days=1)
    (number,) = sender.schedule_messages(later, due)
    receiver = sdk.receiver(queue, client=client)
    (peeked,) = receiver.peek_messages()
    assert peeked.sequence_number == number
    sender.cancel_scheduled_messages(number)
    assert receiver.peek_messages() == []


def test_errors_are_the_same_over_a_websocket(
    connect: MakeClient, sdk: SyncSdk, bus: Bus, queue: str
) -> None:
    """SB-W-003 As over TCP: no such entity, and a wrong key."""
    wrong = bus.connection_string.replace("SharedAccessKey=", "SharedAccessKey=not-")
    for name, text in (("nowhere", bus.connection_string), (queue, wrong)):
        with pytest.raises(ServiceBusError) as plain:
            sdk.sender(name, client=sdk.client(text))
        with pytest.raises(ServiceBusError) as caught:
            sdk.sender(name, client=connect(text))
        assert caught.value.message == plain.value.message
        # The SDK's own rule for clients with a custom endpoint.
        assert isinstance(caught.value, ServiceBusConnectionError)


def test_client_that_trusts_nobody_does_not_connect(
    bus: Bus, sdk: SyncSdk, queue: str
) -> None:
    """SB-W-004 The certificate of the bus is checked as over TLS."""
    client = sdk.client(
        bus.connection_string.replace("UseDevelopmentEmulator=true", ""),
        transport_type=TransportType.AmqpOverWebsocket,
        custom_endpoint_address=f"sb://localhost:{bus.server.port}",
    )
    with pytest.raises(ServiceBusError):
        sdk.sender(queue, client=client)


@pytest.fixture(scope="module")
def proxy() -> Iterator[ConnectProxy]:
    with closing(ConnectProxy()) as running:
        yield running


def test_messages_go_through_a_proxy(
    request: pytest.FixtureRequest,
    connect: MakeClient,
    sdk: SyncSdk,
    bus: Bus,
    proxy: ConnectProxy,
    queue: str,
) -> None:
    """SB-W-005 As companies have them: HTTP CONNECT, with a name and a password."""
    if sdk.flavour == "async" and request.node.callspec.params["connect"] == "ws":
        pytest.skip("aiohttp tunnels TLS only, and asks proxies for the rest by GET")
    tunnels = proxy.tunnel_count
    # The async half hands it to aiohttp, which wants a URL.
    host = "http://127.0.0.1" if sdk.flavour == "async" else "127.0.0.1"
    client = connect(
        http_proxy={
            "proxy_hostname": host,
            "proxy_port": proxy.port,
            "username": "somebody",
            "password": "pass-phrase",
        }
    )
    sdk.sender(queue, client=client).send_messages(ServiceBusMessage("through"))
    receiver = sdk.receiver(queue, client=client)
    (received,) = receiver.receive_messages(1, max_wait_time=ARRIVAL_SECONDS)
    assert str(received) == "through"
    receiver.complete_message(received)
    assert proxy.tunnel_count >= tunnels + 2
    assert set(proxy.targets) == {f"localhost:{bus.server.port}"}
