"""Which paths mean messages, and what they name."""

import pytest

from twinbus.doors.http.messaging.messaging_path import (
    Asked,
    messaging_path,
    token_of,
    token_text,
)
from twinbus.doors.http.request import HttpRequest

TOKEN = "00112233-4455-6677-8899-aabbccddeeff"


def found(method: str, target: str) -> tuple[str, Asked] | None:
    path = messaging_path(HttpRequest(method=method, target=target, headers={}))
    return None if path is None else (path.entity, path.asked)


@pytest.mark.parametrize(
    ("method", "target", "expected"),
    [
        ("POST", "/q/messages", ("q", Asked.SEND)),
        ("POST", "/q/Messages/?api-version=2015-01", ("q", Asked.SEND)),
        ("POST", "http://host:1/a/b/messages", ("a/b", Asked.SEND)),
        ("POST", "/q/messages/messages", ("q/messages", Asked.SEND)),
        ("POST", "/q/messages/head", ("q", Asked.RECEIVE)),
        ("DELETE", "/q/MESSAGES/HEAD?timeout=5", ("q", Asked.RECEIVE)),
        (
            *("POST", "/t/subscriptions/s/messages/head"),
            ("t/subscriptions/s", Asked.RECEIVE),
        ),
        ("DELETE", f"/q/messages/5/{TOKEN}", ("q", Asked.LOCKED)),
        ("PUT", f"/q/messages/head/{TOKEN}", ("q", Asked.LOCKED)),
        ("POST", f"/q/messages/a%2Fb/{TOKEN}", ("q", Asked.LOCKED)),
        ("DELETE", "/q/messages/5/x", ("q", Asked.LOCKED)),
        # Of the administration.
        ("GET", "/q/messages/head", None),
        ("PUT", "/q/messages", None),
        ("DELETE", "/q/messages", None),
        ("PUT", "/q/messages/head", None),
        ("PUT", "/messages", None),
        ("POST", "/messages", None),
        ("POST", "/messages/head", None),
        ("POST", "/", None),
        ("DELETE", "/q", None),
        ("POST", "/q/messages%2Fhead", None),
    ],
)
def test_paths_that_mean_messages(
    method: str, target: str, expected: tuple[str, Asked] | None
) -> None:
    assert found(method, target) == expected


def test_token_is_that_of_amqp() -> None:
    token = token_of(TOKEN)
    assert token == bytes.fromhex("33221100554477668899aabbccddeeff")
    assert token_text(token) == TOKEN


@pytest.mark.parametrize("text", ["", "x", "0" * 32, "{" + "0" * 34 + "}", "z" * 36])
def test_what_is_no_token_has_no_bytes(text: str) -> None:
    assert token_of(text) == b""
