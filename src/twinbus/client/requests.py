"""Requests and responses over a pair of links, as $cbs and $management need them.

Both links are on one session. The correlation id of a response is the message id of its
request.
"""

import asyncio
from dataclasses import replace

from twinbus.amqp.errors import AmqpError, DecodeError
from twinbus.amqp.events import MessageReceived
from twinbus.amqp.link import Link
from twinbus.amqp.messaging import (
    Message,
    Properties,
    decode_message,
    encode_message,
)
from twinbus.amqp.outcomes import ACCEPTED
from twinbus.client.link import ClientLink, Wire
from twinbus.client.sender import ClientSender

# Responses that may be on their way at the same time.
RESPONSE_CREDIT = 50


class ReplyLink(ClientLink):
    """Gives each response to the request that waits for it."""

    def __init__(self, wire: Wire, link: Link) -> None:
        super().__init__(wire, link)
        # Message ids of requests that wait -> their response, once it has arrived.
        self.expected: dict[str, Message | None] = {}

    def on_attached(self) -> None:
        super().on_attached()
        self._link.issue_credit(RESPONSE_CREDIT)

    def on_message(self, message: MessageReceived) -> None:
        if not message.settled:
            delivery_id = message.delivery_id
            session = self._link.session
            session.send_disposition(True, delivery_id, delivery_id, True, ACCEPTED)
        if self._link.credit * 2 < RESPONSE_CREDIT:
            self._link.issue_credit(RESPONSE_CREDIT)
        try:
            response = decode_message(message.payload)
        except DecodeError as error:
            self.on_detached(AmqpError(error.condition, error.description))
            return
        properties = response.properties or Properties()
        message_id = str(properties.correlation_id)
        if message_id in self.expected:
            self.expected[message_id] = response
            self.wake()

    async def response_to(self, message_id: str) -> Message:
        """Wait for the response to an expected request."""
        while True:
            response = self.expected[message_id]
            if response is not None:
                return response
            self.check()
            await self.changed()


class Requester:
    """Sends requests to one address and awaits their responses."""

    def __init__(
        self, sender: ClientSender, responses: ReplyLink, reply_to: str
    ) -> None:
        self._sender = sender
        self._responses = responses
        self._reply_to = reply_to
        self._request_count = 0

    @property
    def usable(self) -> bool:
        return self._sender.usable and self._responses.usable

    async def request(
        self, message: Message, *, timeout_seconds: float, state: bytes | None = None
    ) -> Message:
        """Send a request and return its response; TimeoutError if none comes."""
        self._responses.check()
        self._request_count += 1
        message_id = f"{self._reply_to}:{self._request_count}"
        properties = replace(
            message.properties or Properties(),
            message_id=message_id,
            reply_to=self._reply_to,
        )
        request = replace(message, properties=properties)
        self._responses.expected[message_id] = None
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._sender.send(encode_message(request), state=state)
                return await self._responses.response_to(message_id)
        finally:
            del self._responses.expected[message_id]
