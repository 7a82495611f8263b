"""The handshake of a WebSocket: who may begin one, and what others are told."""

import pytest

from twinbus.doors.http.request import HttpRequest
from twinbus.doors.websocket.handshake import answer_to, is_meant_by

PATH = "/$servicebus/websocket"
# The nonce of RFC 6455, and its answer there.
HEADERS = {
    "host": "localhost:5672",
    "upgrade": "websocket",
    "connection": "Upgrade",
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    "sec-websocket-protocol": "AMQPWSB10",
}


def request(path: str = PATH, method: str = "GET", **changed: str) -> HttpRequest:
    headers = {
        **HEADERS,
        **{name.replace("_", "-"): text for name, text in changed.items()},
    }
    kept = {name: text for name, text in headers.items() if text != "-"}
    return HttpRequest(method=method, target=path, headers=kept)


def status(asked: HttpRequest, *origins: str) -> int:
    return answer_to(asked, origins).status


@pytest.mark.parametrize(
    "path",
    [
        *(PATH, f"{PATH}/", f"{PATH}?x=1", "/%24servicebus/websocket"),
        *("/$ServiceBus/WebSocket", "http://bus:80/$servicebus/websocket"),
    ],
)
def test_path_is_recognized_as_clients_write_it(path: str) -> None:
    assert is_meant_by(request(path))


def test_other_paths_are_left_to_others() -> None:
    assert not is_meant_by(request("/$servicebus"))
    assert not is_meant_by(request("/queue/$servicebus/websocket"))


def test_accepted_handshake_proves_that_it_was_understood() -> None:
    response = answer_to(request(), ())
    assert response.status == 101
    assert response.headers == {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Accept": "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=",
        "Sec-WebSocket-Protocol": "AMQPWSB10",
    }


def test_client_chooses_among_the_known_subprotocols() -> None:
    for offered, chosen in (
        ("amqp", "amqp"),
        ("mqtt, amqp, AMQPWSB10", "amqp"),
        ("AMQPWSB10,amqp", "AMQPWSB10"),
    ):
        response = answer_to(request(sec_websocket_protocol=offered), ())
        assert response.headers["Sec-WebSocket-Protocol"] == chosen


def test_connection_header_may_have_more_words() -> None:
    assert status(request(connection="keep-alive, Upgrade", upgrade="WebSocket")) == 101


@pytest.mark.parametrize(
    ("asked", "expected", "told"),
    [
        (request(method="POST"), 405, "GET"),
        (request(upgrade="-"), 426, "Upgrade: websocket"),
        (request(upgrade="h2c"), 426, "Upgrade: websocket"),
        (request(connection="close"), 426, "Upgrade: websocket"),
        (request(sec_websocket_version="8"), 426, "13"),
        (request(sec_websocket_version="-"), 426, "13"),
        (request(sec_websocket_key="-"), 400, "Sec-WebSocket-Key"),
        (request(sec_websocket_key="c2hvcnQ="), 400, "Sec-WebSocket-Key"),
        (request(sec_websocket_key="ä" * 24), 400, "Sec-WebSocket-Key"),
        (request(sec_websocket_protocol="-"), 400, "AMQPWSB10"),
        (request(sec_websocket_protocol="mqtt"), 400, "AMQPWSB10"),
    ],
)
def test_wrong_handshakes_are_told_what_is_wrong(
    asked: HttpRequest, expected: int, told: str
) -> None:
    response = answer_to(asked, ())
    assert response.status == expected
    assert told in response.body.decode()


def test_other_version_is_told_the_known_one() -> None:
    response = answer_to(request(sec_websocket_version="8"), ())
    assert response.headers["sec-websocket-version"] == "13"


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://localhost:5672", "localhost:5672"),
        ("http://LocalHost:5672", "localhost:5672"),
        ("http://localhost", "localhost:80"),
        ("http://localhost:80", "localhost"),
        ("https://bus.example", "bus.example"),
        ("https://bus.example", "bus.example:443"),
        ("https://[::1]:5671", "[::1]:5671"),
    ],
)
def test_pages_of_the_same_host_may_connect(origin: str, host: str) -> None:
    assert status(request(origin=origin, host=host)) == 101


@pytest.mark.parametrize(
    "origin",
    [
        *("http://evil.example", "http://localhost", "http://localhost:8080", "null"),
        *("", "file://", "http://[", "localhost:5672", "http://localhost:56720"),
        "http://localhost:5672.evil.example",
    ],
)
def test_pages_of_other_places_are_refused(origin: str) -> None:
    response = answer_to(request(origin=origin), ())
    assert response.status == 403
    assert "websocket_origins" in response.body.decode()


def test_listed_pages_may_connect() -> None:
    asked = request(origin="https://App.example")
    assert status(asked, "https://other.example") == 403
    assert status(asked, "https://other.example", "https://app.example/") == 101
    assert status(request(origin="null"), "*") == 101
