"""Requests to `$management` and `$cbs` on a `Peer`, and tokens for `$cbs`."""

import base64
import hashlib
import hmac
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import quote, quote_plus

from .codec import Array, Long, Symbol
from .frames import terminus
from .message import VALUE, Received, value_message
from .peer import Peer

_ids = itertools.count(1)


class Response(NamedTuple):
    """An answer: status and the whole message."""

    status: int
    message: Received

    @property
    def body(self) -> Any:
        """The amqp-value of the answer."""
        return self.message.only(VALUE)

    @property
    def condition(self) -> str | None:
        """The error condition of a `$management` answer, which has to be a symbol."""
        condition = self.message.application_properties.get("errorCondition")
        assert condition is None or isinstance(condition, Symbol)
        return condition


class Requests:
    """A pair of links to a node that answers requests."""

    status_property = "statusCode"

    def __init__(
        self,
        peer: Peer,
        node: str,
        *,
        target: str | None = "replies-here",
        link_name: str | None = None,
        credit: int = 200,
    ) -> None:
        name = {} if link_name is None else {"name": link_name}
        self.sender = peer.sender(node)
        self.receiver = peer.receiver(node, target=terminus(0x29, target), **name)
        self.receiver.flow(credit)

    def request(
        self,
        application_properties: dict[str, Any],
        body: Any,
        *,
        message_id: Any = None,
        reply_to: str | None = "replies-here",
    ) -> Response:
        """Ask and wait for the answer, which has to be to this very request."""
        message_id = message_id or f"request-{next(_ids)}"
        properties = {"message_id": message_id, "reply_to": reply_to}
        self.sender.send(
            value_message(
                body,
                properties=properties,
                application_properties=application_properties,
            )
        )
        return self.answer_to(message_id)

    def answer_to(self, message_id: Any) -> Response:
        """The next answer; its correlation id has to be of the same type too."""
        message = self.receiver.next().message
        correlation_id = message.properties["correlation_id"]
        assert correlation_id == message_id
        assert type(correlation_id) is type(message_id)
        return Response(message.application_properties[self.status_property], message)


class Management(Requests):
    """The `$management` node of an entity."""

    def __init__(self, peer: Peer, entity: str, **options: Any) -> None:
        super().__init__(peer, f"{entity}/$management", **options)

    def call(self, operation: str, body: dict[str, Any], **options: Any) -> Response:
        """One operation, named without its prefix."""
        properties = {"operation": f"com.microsoft:{operation}"}
        return self.request(properties, body, **options)

    def peek(self, start: int, count: int) -> list[Received]:
        """Peeked messages; empty where there are none."""
        body = {"from-sequence-number": Long(start), "message-count": Long(count)}
        answer = self.call("peek-message", body)
        if answer.status == 204:
            return []
        assert answer.status == 200
        return [Received(entry["message"]) for entry in answer.body["messages"]]

    def peek_texts(self) -> list[str]:
        """The bodies of all messages of the entity."""
        return [message.text for message in self.peek(1, 100)]


class Cbs(Requests):
    """The `$cbs` node."""

    status_property = "status-code"

    def __init__(self, peer: Peer, **options: Any) -> None:
        super().__init__(peer, "$cbs", **options)

    def put_token(
        self,
        audience: str,
        token: str,
        *,
        kind: str | None = "servicebus.windows.net:sastoken",
        **options: Any,
    ) -> Response:
        """Put a token for an audience."""
        properties = {"operation": "put-token", "name": audience}
        if kind is not None:
            properties["type"] = kind
        return self.request(properties, token, **options)


def sas_token(
    resource: str,
    key_name: str,
    key: str,
    expires_at: float,
    *,
    encode: Callable[[str], str] = quote_plus,
    order: str = "sr sig se skn",
) -> str:
    """A shared access signature; `expires_at` in seconds of the epoch."""
    encoded = encode(resource)
    expiry = str(int(expires_at))
    text = f"{encoded}\n{expiry}".encode()
    digest = hmac.new(key.encode(), text, hashlib.sha256).digest()
    fields = {
        "sr": encoded,
        "sig": quote(base64.b64encode(digest).decode(), safe=""),
        "se": expiry,
        "skn": quote(key_name, safe=""),
    }
    pairs = (f"{name}={fields[name]}" for name in order.split())
    return "SharedAccessSignature " + "&".join(pairs)


def longs(*numbers: int) -> Array:
    """An array of longs."""
    return Array(0x81, [Long(number) for number in numbers])


def uuids(*tokens: Any) -> Array:
    """An array of uuids."""
    return Array(0x98, list(tokens))
