"""A namespace, reached by the vendor's SDK alone.

    ask          a request that needs no link, repeated while that may help
    receiver     a link to receive messages

The SDK's own retries are off: it would wait a second where a busy service asks for ten.
Requests that may succeed later are repeated here, as long as the option `timeout` says.
"""

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final, Self, TypeVar

from azure.core.exceptions import AzureError
from azure.servicebus import (
    NEXT_AVAILABLE_SESSION,
    ServiceBusClient,
    ServiceBusReceiver,
    ServiceBusSubQueue,
)
from azure.servicebus.exceptions import (
    MessageLockLostError,
    MessageNotFoundError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)

from twinbus.pairing.failures import ASKS_FOR_PATIENCE, FailureKind
from twinbus.pairing.sdk.error_kinds import kind_of
from twinbus.sdk_internals import blocking_links
from twinbus.sdk_internals.errors import requires_sessions
from twinbus.spark.connection import SparkConnection
from twinbus.spark.patience import BUSY_SECONDS, RetryPatience
from twinbus.spark.portable.entity_path import entity_path
from twinbus.spark.portable.errors import (
    EntityMissing,
    LockLost,
    NotDeferred,
    PortableError,
    SessionsRequired,
    SessionTaken,
)

T = TypeVar("T")

_ATTEMPT_SECONDS: Final = 60.0

_OPEN_LINKS: Final = 16
"""Each has a connection of its own; the one that was used longest ago is closed."""

TRANSIENT: Final = frozenset(
    (
        FailureKind.TIMEOUT,
        FailureKind.CONNECTION,
        FailureKind.COMMUNICATION,
        FailureKind.SERVICE,
        *ASKS_FOR_PATIENCE,
    )
)

_REMEDIES: Final = {
    FailureKind.AUTHENTICATION: "Check the key in the connection string.",
    FailureKind.AUTHORIZATION: "The key needs the claim Listen.",
    FailureKind.DISABLED: "Enable it for receiving.",
}

FAILURES: Final = (AzureError, OSError, EOFError, ValueError)
"""What the SDK raises if the namespace or the connection fails."""


def sdk_client(connection: SparkConnection) -> ServiceBusClient:
    """A client of the SDK that never retries. Raises SecretError, OptionError."""
    trust: dict[str, Any] = {}
    if connection.ca_file is not None:
        trust["connection_verify"] = connection.ca_file
    return ServiceBusClient.from_connection_string(
        connection.open().connection_string, retry_total=0, **trust
    )


class PortableNamespace:
    """Talks to one namespace. Not shared between threads; ends with a `with`."""

    def __init__(self, connection: SparkConnection, patience_ms: int) -> None:
        self.address = connection.open().host
        self._connection = connection
        self._patience_seconds = patience_ms / 1000
        self._client = sdk_client(connection)
        self._links: OrderedDict[str, blocking_links.Link] = OrderedDict()

    def another(self) -> "PortableNamespace":
        """The same one, for another thread."""
        return PortableNamespace(self._connection, int(self._patience_seconds * 1000))

    def close(self) -> None:
        for path in list(self._links):
            self._drop(path)
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # --- requests -------------------------------------------------------------

    def ask(
        self, path: str, operation: str, body: Mapping[str, Any]
    ) -> Mapping[bytes, Any]:
        """Raises PortableError."""

        def attempt() -> Mapping[bytes, Any]:
            return blocking_links.ask(
                self._link(path), operation, body, _ATTEMPT_SECONDS
            )

        return self.patiently(path, attempt, lambda: self._drop(path))

    def _link(self, path: str) -> blocking_links.Link:
        link = self._links.get(path)
        if link is None:
            while len(self._links) >= _OPEN_LINKS:
                self._drop(next(iter(self._links)))
            entity, subscription = entity_path(path).address_parts
            link = blocking_links.management_link(self._client, entity, subscription)
            self._links[path] = link
        self._links.move_to_end(path)
        return link

    def _drop(self, path: str) -> None:
        link = self._links.pop(path, None)
        if link is not None:
            close_quietly(link)

    # --- links ----------------------------------------------------------------

    def receiver(self, path: str) -> ServiceBusReceiver:
        """Open. Raises PortableError; SessionsRequired where there are sessions."""
        return self.patiently(path, lambda: self._opened(path))

    def session(
        self, path: str, session_id: str | None, wait_seconds: float
    ) -> ServiceBusReceiver:
        """Hold a session; without an id, the next one that has messages. Raises
        PortableError; SessionTaken if no session is free."""
        wanted = NEXT_AVAILABLE_SESSION if session_id is None else session_id

        def attempt() -> ServiceBusReceiver:
            try:
                return self._opened(path, session_id=wanted, max_wait_time=wait_seconds)
            except FAILURES as error:
                if session_id is None and kind_of(error) is FailureKind.TIMEOUT:
                    raise SessionTaken(f"No session of '{path}' is free.") from None
                raise

        return self.patiently(path, attempt)

    def _opened(self, path: str, **session: Any) -> ServiceBusReceiver:
        parts = entity_path(path)
        sub_queue = None
        if parts.sub_queue is not None:
            sub_queue = ServiceBusSubQueue(parts.sub_queue)
        receiver = (
            self._client.get_queue_receiver(
                parts.entity, sub_queue=sub_queue, **session
            )
            if parts.subscription is None
            else self._client.get_subscription_receiver(
                parts.entity, parts.subscription, sub_queue=sub_queue, **session
            )
        )
        try:
            return receiver.__enter__()
        except BaseException:
            close_quietly(receiver)
            raise

    # --- what goes wrong ------------------------------------------------------

    def patiently(
        self,
        path: str,
        attempt: Callable[[], T],
        between: Callable[[], None] = lambda: None,
    ) -> T:
        """Try, and again while waiting may help. Raises PortableError."""
        patience = self.patience()
        while True:
            try:
                return attempt()
            except FAILURES as error:
                between()
                self.wait_after(path, error, patience)

    def patience(self) -> RetryPatience:
        return RetryPatience(self._patience_seconds)

    def wait_after(self, path: str, error: Exception, patience: RetryPatience) -> None:
        """Wait before the next attempt. Raises PortableError if waiting does not help,
        or the time is up."""
        known = known_refusal(path, error)
        if known is not None:
            raise known from None
        kind = kind_of(error)
        at_least = BUSY_SECONDS if kind in ASKS_FOR_PATIENCE else 0.0
        if kind not in TRANSIENT or not patience.wait(at_least):
            raise self._refusal(path, error) from None

    def _refusal(self, path: str, error: Exception) -> PortableError:
        kind = kind_of(error)
        text = str(error).rstrip(".") or kind.value
        if kind is FailureKind.NOT_FOUND:
            return EntityMissing(
                f"'{path}' does not exist in {self.address}, or is a topic. Make it, "
                "or change the option 'entities'; of a topic read a subscription."
            )
        if kind in TRANSIENT:
            return PortableError(
                f"'{path}' of {self.address} could not be read for "
                f"{self._patience_seconds:g} s: {text}. The option 'timeout' says how "
                "long to wait."
            )
        remedy = _REMEDIES.get(kind, "")
        return PortableError(
            f"'{path}' of {self.address} cannot be read ({kind.value}): {text}. "
            f"{remedy}".rstrip()
        )


def known_refusal(path: str, error: Exception) -> PortableError | None:
    """An error for refusals that our callers expect; None for others."""
    if isinstance(error, MessageNotFoundError):
        return NotDeferred(f"'{path}': {error}")
    if isinstance(error, MessageLockLostError | SessionLockLostError):
        return LockLost(f"'{path}': {error}")
    if isinstance(error, SessionCannotBeLockedError):
        return SessionTaken(f"'{path}': {error}")
    if requires_sessions(error):
        return SessionsRequired(f"'{path}' requires sessions.")
    return None


def close_quietly(link: blocking_links.Link) -> None:
    """Close a link, and ignore errors: its connection ends anyway."""
    with contextlib.suppress(*FAILURES):
        blocking_links.close_link(link)
