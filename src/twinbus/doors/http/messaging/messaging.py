"""Messages over HTTP: send, receive, and settle what was received.

    POST    ENTITY/messages               send a message, or a batch in JSON
    POST    ENTITY/messages/head          receive a message, locked
    DELETE  ENTITY/messages/head          receive a message, and delete it
    POST    ENTITY/messages/NAME/TOKEN    renew the lock
    PUT     ENTITY/messages/NAME/TOKEN    unlock the message
    DELETE  ENTITY/messages/NAME/TOKEN    complete the message

ENTITY is a queue, a topic, a subscription, or a dead-letter queue. A receive waits for
a message. If its client goes, it takes none.
"""

import math
from collections.abc import Callable
from typing import Final, NamedTuple

from twinbus.auth.claims import Claim
from twinbus.auth.policy import Policy
from twinbus.broker.entity_path import EntityPath, parse_entity_path
from twinbus.clock import Clock
from twinbus.doors.http.bulk.http_caller import Actors, HttpCaller
from twinbus.doors.http.held_bytes import HeldBytes
from twinbus.doors.http.messaging.connection_receivers import (
    ConnectionReceivers,
    KeptReceiver,
)
from twinbus.doors.http.messaging.messaging_path import Asked, MessagingPath
from twinbus.doors.http.messaging.messaging_refusal import messaging_refusal
from twinbus.doors.http.messaging.received_response import (
    messages_address,
    received_response,
    renewed_response,
)
from twinbus.doors.http.messaging.remote_messaging import (
    ABANDONED,
    COMPLETED,
    RemoteMessaging,
)
from twinbus.doors.http.messaging.sent_message import (
    is_batch,
    sent_batch,
    sent_message,
)
from twinbus.doors.http.request import HttpRequest
from twinbus.doors.http.response import HttpResponse
from twinbus.entities.entity import Entity
from twinbus.entities.namespace import Namespace
from twinbus.errors import (
    ArgumentError,
    MessageLockLost,
    MessageSizeExceeded,
    NotAllowed,
    ServiceBusError,
)
from twinbus.limits import (
    ENTITY_REQUEST_BYTES,
    HTTP_WAIT_SECONDS,
    HTTP_WAIT_SECONDS_MAX,
)
from twinbus.operations.entity_handle import EntityHandle, find_entity
from twinbus.operations.locks import abandon, complete, renew_locks
from twinbus.operations.receiving import open_receiver
from twinbus.operations.routed_sending import RoutedSender
from twinbus.operations.sending import send, send_batch

_JSON_FACTOR: Final = 2
"""A batch in JSON may be so much larger than the batch that it describes: JSON has
names and escapes that AMQP does not need."""

_DONE: Final = HttpResponse(status=200)
_SENT: Final = HttpResponse(status=201)
_NO_MESSAGE: Final = HttpResponse(status=204)


class HttpMessaging:
    """Answers the messaging requests for one namespace."""

    def __init__(
        self,
        namespace: Namespace,
        clock: Clock,
        held: HeldBytes,
        make_caller: Callable[[HttpRequest, Policy, int, Actors], HttpCaller] = (
            HttpCaller
        ),
    ) -> None:
        self._namespace = namespace
        self._clock = clock
        self._held = held
        self._make_caller = make_caller
        self._actors = Actors()
        # Set when this process joins a cluster.
        self.others: RemoteMessaging | None = None
        # Those that wait for a message, and for which request.
        self._waiting: dict[KeptReceiver, tuple[HttpRequest, MessagingPath]] = {}
        # The rules that they were last checked with.
        self._policy = namespace.policy
        self._is_stopping = False

    # --- the size of a request ------------------------------------------------

    def max_body_bytes(self, request: HttpRequest, path: MessagingPath) -> int:
        """Without a claim on an entity that exists, the limit is that of other
        requests."""
        length = request.headers.get("content-length")
        is_small = length is not None and int(length) <= ENTITY_REQUEST_BYTES
        if path.asked is not Asked.SEND or is_small:
            return ENTITY_REQUEST_BYTES
        try:
            entity = self._sent_to(request, path)
        except ServiceBusError:
            return ENTITY_REQUEST_BYTES
        limit = self._namespace.sizes.max_message_bytes_of(entity)
        return limit * _JSON_FACTOR if is_batch(request) else limit

    def too_large(
        self, request: HttpRequest, path: MessagingPath, text: str
    ) -> HttpResponse:
        """The response to a request with a larger body."""
        try:
            self._sent_to(request, path)
            raise MessageSizeExceeded(
                f"{text} Send a smaller message, or raise the limit of "
                f"'{path.entity}'.",
                entity_path=path.entity,
            )
        except ServiceBusError as error:
            return messaging_refusal(error)

    def _sent_to(self, request: HttpRequest, path: MessagingPath) -> Entity:
        """Raises AuthenticationFailed, UnauthorizedAccess,
        MessagingEntityNotFound."""
        caller = self._caller(request, path)
        return find_entity(self._namespace, path.entity, caller, Claim.SEND)[0]

    # --- requests -------------------------------------------------------------

    async def answer(self, request: HttpRequest, path: MessagingPath) -> HttpResponse:
        # First: nobody without a valid token learns more than that.
        try:
            caller = self._caller(request, path)
        except ServiceBusError as error:
            return messaging_refusal(error)
        try:
            return await self._answer(request, path, caller)
        except ServiceBusError as error:
            self._log_refusal(path, caller, error)
            return messaging_refusal(error)

    def _log_refusal(
        self, path: MessagingPath, caller: HttpCaller, error: ServiceBusError
    ) -> None:
        """In the operation log, if there is such an entity here."""
        try:
            parsed = parse_entity_path(path.entity)
            entity = self._namespace.entity(parsed.entity)
            handle = EntityHandle(self._namespace, entity, parsed, caller)
        except ServiceBusError:
            return
        handle.log_refusal(error)

    async def _answer(
        self, request: HttpRequest, path: MessagingPath, caller: HttpCaller
    ) -> HttpResponse:
        claim = Claim.SEND if path.asked is Asked.SEND else Claim.LISTEN
        entity, parsed = find_entity(self._namespace, path.entity, caller, claim)
        opened = _Opened(entity, parsed, caller)
        if path.asked is Asked.LOCKED:
            return await self._settle(request, opened, path)
        # What was received before can be settled all the same: that ends work.
        self._namespace.check_not_busy(parsed.text)
        if path.asked is Asked.SEND:
            return await self._send(request, opened)
        return await self._receive(request, opened, path)

    def _caller(self, request: HttpRequest, path: MessagingPath) -> HttpCaller:
        """Raises AuthenticationFailed."""
        policy, now = self._namespace.policy, self._clock.now()
        caller = self._make_caller(request, policy, now, self._actors)
        caller.name = f"http {caller.key_name}"
        caller.stand_for(path.entity, request.path)
        return caller

    def _handle(self, opened: "_Opened") -> EntityHandle:
        """Raises MessagingEntityNotFound, FragmentUnavailable."""
        return EntityHandle(self._namespace, opened.entity, opened.path, opened.caller)

    # --- sending --------------------------------------------------------------

    async def _send(self, request: HttpRequest, opened: "_Opened") -> HttpResponse:
        now, is_many = self._clock.now(), is_batch(request)
        if is_many:
            encoded = sent_batch(request.body, now)
        else:
            encoded = [sent_message(request, now)]
        others = self.others
        if others is not None and others.concern(opened.entity):
            sender = self._routed_sender(others, request, opened)
            await sender.send(encoded, is_batch=is_many)
        else:
            await (send_batch if is_many else send)(self._handle(opened), encoded)
        return _SENT

    def _routed_sender(
        self, others: RemoteMessaging, request: HttpRequest, opened: "_Opened"
    ) -> RoutedSender:
        entity, caller = opened.entity, opened.caller
        sender = ConnectionReceivers.of(request.connection).sender(
            (caller.name, opened.path.text.lower()),
            entity,
            lambda: others.sender(entity, opened.path, caller),
        )
        sender.caller = caller
        return sender

    # --- receiving ------------------------------------------------------------

    async def _receive(
        self, request: HttpRequest, opened: "_Opened", path: MessagingPath
    ) -> HttpResponse:
        opened.check_may_receive()
        self._held.check(opened.path.text)
        wait_seconds = self._wait_seconds(request, opened.caller)
        with request.connection.waiting():
            receiver = self._receiver(request, opened)
            self._waiting[receiver] = (request, path)
            try:
                received = await receiver.receive_one(wait_seconds)
            finally:
                del self._waiting[receiver]
        if received is None:
            return _NO_MESSAGE
        address = messages_address(request.root, path.entity)
        return received_response(received, address)

    def _receiver(self, request: HttpRequest, opened: "_Opened") -> KeptReceiver:
        peek_lock, others = request.method == "POST", self.others
        entity, path, caller = opened.entity, opened.path, opened.caller

        def make() -> KeptReceiver:
            if others is not None and others.concern(entity):
                return others.receiver(entity, path, caller, peek_lock)
            return open_receiver(self._handle(opened), peek_lock)

        kept = ConnectionReceivers.of(request.connection)
        return kept.receiver((caller.name, path.text.lower(), peek_lock), entity, make)

    def _wait_seconds(self, request: HttpRequest, caller: HttpCaller) -> float:
        """Not longer than the token is valid. Raises ArgumentError."""
        wanted = _asked_seconds(request.query.get("timeout"))
        if self._is_stopping:
            return 0
        if caller.expires_at is None:
            return wanted
        return min(wanted, (caller.expires_at - self._clock.now()) / 1000)

    def tick(self) -> None:
        """End waits whose rule has changed and gives no claim any more."""
        if self._policy is self._namespace.policy:
            return
        self._policy = self._namespace.policy
        for receiver, (request, path) in self._waiting.items():
            try:
                self._caller(request, path).require(Claim.LISTEN, path.entity)
            except ServiceBusError:
                receiver.hurry()

    def stop_waiting(self) -> None:
        """The server stops: those who wait get no message."""
        self._is_stopping = True
        for receiver in self._waiting:
            receiver.hurry()

    # --- locks ----------------------------------------------------------------

    async def _settle(
        self, request: HttpRequest, opened: "_Opened", path: MessagingPath
    ) -> HttpResponse:
        token, others = path.lock_token, self.others
        if not token:
            raise MessageLockLost(entity_path=opened.path.text)
        where = None if others is None else others.has_lock(opened.entity, token)
        if others is not None and where is not None:
            return await _settle_there(others, where, request.method, opened, token)
        handle = self._handle(opened)
        if request.method == "POST":
            (locked_until,) = await renew_locks(handle, [token])
            return renewed_response(locked_until)
        await (abandon if request.method == "PUT" else complete)(handle, token)
        return _DONE


class _Opened(NamedTuple):
    """What a request is about, and who asks."""

    entity: Entity
    path: EntityPath
    caller: HttpCaller

    def check_may_receive(self) -> None:
        """Raises UnauthorizedAccess, EntityDisabled, NotAllowed: a session is held by a
        connection, over many requests."""
        path, sub_queue = self.path.text, self.path.sub_queue
        self.caller.require(Claim.LISTEN, path)
        self.entity.check_may_receive(sub_queue)
        if self.entity.settings(sub_queue).requires_session:
            raise NotAllowed(
                f"'{path}' requires sessions, and messages of sessions cannot be "
                "received over HTTP. Receive them over AMQP.",
                entity_path=path,
            )


async def _settle_there(
    others: RemoteMessaging, address: str, method: str, opened: _Opened, token: bytes
) -> HttpResponse:
    """At the broker that has the message."""
    if method == "POST":
        return renewed_response(await others.renew(address, opened.path, token))
    status = ABANDONED if method == "PUT" else COMPLETED
    await others.settle(address, opened.path, token, status)
    return _DONE


def _asked_seconds(text: str | None) -> float:
    """Raises ArgumentError."""
    if text is None:
        return HTTP_WAIT_SECONDS
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not seconds >= 0:
        raise ArgumentError.about(
            "timeout", value=text[:60], expected="seconds, 0 or more"
        )
    return min(seconds, HTTP_WAIT_SECONDS_MAX)
