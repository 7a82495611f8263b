"""All errors that a client can get: the single table.

There is one class per Service Bus condition. Its class attributes are the AMQP
condition (`condition`), the status for HTTP and `$management` (`http_status`), and
whether the same request may succeed later (`retryable`). Its docstring is the default
text, in which `'{entity_path}'` is replaced. A text names the entity, the limit, the
value and the remedy, because users of an SDK see nothing else.

The domain raises these without a tracking id; the door that answers sets one and logs
it. Bugs are not in this table: they are assertions. The table knows neither AMQP nor
HTTP; `docs/reference/errors.md` is generated from it.
"""

from typing import ClassVar, Final, Self


class ServiceBusError(Exception):
    """The operation on '{entity_path}' could not be completed."""

    condition: ClassVar[str] = "amqp:internal-error"
    http_status: ClassVar[int] = 500
    retryable: ClassVar[bool] = True

    def __init__(
        self, text: str | None = None, *, entity_path: str = "", tracking_id: str = ""
    ) -> None:
        if text is None:
            text = self.default_text(entity_path)
        super().__init__(text)
        # The text for the peer, without the tracking id.
        self.text = text
        # The entity as the client named it; empty for a whole connection.
        self.entity_path = entity_path
        # Connects the answer with the log line; set by the door that answers.
        self.tracking_id = tracking_id

    @classmethod
    def default_text(cls, entity_path: str) -> str:
        """The class's docstring on one line, for this entity."""
        # With `python -OO` there are no docstrings; the condition is used.
        text = " ".join((cls.__doc__ or cls.condition).split())
        entity = f"'{entity_path}'" if entity_path else "this namespace"
        return text.replace("'{entity_path}'", entity)

    @property
    def description(self) -> str:
        """The text for the wire, with the tracking id at its end if there is one."""
        if not self.tracking_id:
            return self.text
        return f"{self.text} TrackingId:{self.tracking_id}"


class MessagingEntityNotFound(ServiceBusError):
    """The messaging entity '{entity_path}' could not be found."""

    # JavaScript and Java recognise a permanent 404 by exactly this sentence.
    condition = "amqp:not-found"
    http_status = 404
    retryable = False


class EntityAlreadyExists(ServiceBusError):
    """The messaging entity '{entity_path}' already exists. Choose another name, or
    update or delete the existing one."""

    condition = "com.microsoft:entity-already-exists"
    http_status = 409
    retryable = False


class EntityDisabled(ServiceBusError):
    """The messaging entity '{entity_path}' is disabled for this operation. Set
    its status to Active to use it."""

    condition = "com.microsoft:entity-disabled"
    http_status = 400
    retryable = False


class MessageNotFound(ServiceBusError):
    """'{entity_path}' holds no such message, or the message is not in the state
    that the operation needs."""

    condition = "com.microsoft:message-not-found"
    http_status = 404
    retryable = False

    @classmethod
    def numbered(cls, sequence_number: int, *, entity_path: str) -> Self:
        """There is no message with this sequence number in the right state."""
        return cls(
            f"'{entity_path}' holds no message with sequence number "
            f"{sequence_number} in the state that the operation needs.",
            entity_path=entity_path,
        )


class MessageLockLost(ServiceBusError):
    """The lock supplied for a message of '{entity_path}' is invalid. Either the
    lock expired, or the message has already been removed from the queue. Receive
    the message again; renew the lock if the work takes longer than it lasts."""

    condition = "com.microsoft:message-lock-lost"
    http_status = 410
    retryable = False


class SessionLockLost(ServiceBusError):
    """The lock on a session of '{entity_path}' has expired or was released. Accept the
    session again to continue."""

    condition = "com.microsoft:session-lock-lost"
    http_status = 410
    retryable = False

    @classmethod
    def named(cls, session_id: str, *, entity_path: str) -> Self:
        """The receiver no longer holds this session."""
        return cls(
            f"The lock on session '{session_id}' of '{entity_path}' has expired or "
            "was released. Accept the session again to continue.",
            entity_path=entity_path,
        )


class SessionCannotBeLocked(ServiceBusError):
    """The requested session of '{entity_path}' cannot be accepted: another
    receiver holds it."""

    condition = "com.microsoft:session-cannot-be-locked"
    http_status = 410
    retryable = True

    @classmethod
    def named(cls, session_id: str, *, entity_path: str) -> Self:
        """Another receiver holds this session."""
        return cls(
            f"The requested session '{session_id}' of '{entity_path}' cannot be "
            "accepted: another receiver holds it.",
            entity_path=entity_path,
        )


class ReaderLeaseHeld(ServiceBusError):
    """Another reader holds the lease of '{entity_path}'. Wait until it has ended, or
    stop that reader."""

    condition = "twinbus:reader-lease-held"
    http_status = 409
    retryable = True

    @classmethod
    def by(cls, reader: str, left_ms: int, *, entity_path: str) -> Self:
        """This reader holds the lease for so long."""
        return cls(
            f"The lease of '{entity_path}' is held by the reader '{reader}' for "
            f"{(left_ms + 999) // 1000} more seconds, unless it renews it. Wait, or "
            "stop that reader.",
            entity_path=entity_path,
        )


class ReaderLeaseLost(ServiceBusError):
    """The lease of '{entity_path}' belongs to another reader, has an older epoch, or
    has run out. Take it again."""

    condition = "twinbus:reader-lease-lost"
    http_status = 410
    retryable = False


class SessionNotFound(ServiceBusError):
    """'{entity_path}' has no session that matches."""

    condition = "com.microsoft:session-not-found"
    # The service answers "no content"; the SDKs read it as an empty list.
    http_status = 204
    retryable = False


class QuotaExceeded(ServiceBusError):
    """A quota of '{entity_path}' is used up. Receive or delete messages, or raise
    the quota."""

    condition = "amqp:resource-limit-exceeded"
    http_status = 403
    retryable = False

    @classmethod
    def measured(cls, quota: str, *, limit: int, actual: int, entity_path: str) -> Self:
        """This quota would reach `actual`, and `limit` is allowed."""
        return cls(
            f"The quota of '{entity_path}' for {quota} is used up: {actual} would be "
            f"needed and {limit} is the limit. Receive or delete messages, or raise "
            "the quota.",
            entity_path=entity_path,
        )

    @classmethod
    def counted(
        cls, nouns: str, *, limit: int, actual: int, setting: str, entity_path: str
    ) -> Self:
        """There would be `actual` of these; the limit is a setting of the server."""
        return cls(
            f"'{entity_path}' would have {actual} {nouns} and {limit} is the limit. "
            f"Delete some, or raise the server's setting '{setting}'.",
            entity_path=entity_path,
        )


class MessageSizeExceeded(ServiceBusError):
    """The message is larger than '{entity_path}' accepts. Send a smaller one, or
    raise the entity's limit."""

    condition = "amqp:link:message-size-exceeded"
    http_status = 403
    retryable = False

    @classmethod
    def measured(cls, size_bytes: int, *, limit_bytes: int, entity_path: str) -> Self:
        """The message has `size_bytes`, and `limit_bytes` are allowed."""
        return cls(
            f"The message of {size_bytes} bytes is larger than the {limit_bytes} "
            f"bytes that '{entity_path}' accepts. Send a smaller one, or raise the "
            "entity's limit.",
            entity_path=entity_path,
        )


class ServerBusy(ServiceBusError):
    """The server is too busy to accept requests for '{entity_path}' now. Wait a moment
    and try again."""

    condition = "com.microsoft:server-busy"
    http_status = 503
    retryable = True

    @classmethod
    def store_away(cls, entity_path: str, limit_ms: int) -> Self:
        """It is away for so long that nothing more is kept for it."""
        return cls(
            f"The message store of '{entity_path}' has been away or full for more than "
            f"{limit_ms // 1000} seconds, the setting 'transfer_limit'. Send again "
            f"when it is back. {STORE_TROUBLE}",
            entity_path=entity_path,
        )

    @classmethod
    def outbox_full(cls, kept_for: str, limit_bytes: int, entity_path: str) -> Self:
        """No more messages can be kept for a store that is away."""
        return cls(
            f"Messages to '{entity_path}' cannot go into its message store now, and "
            f"no more of them can be kept elsewhere: the limit for {kept_for} is "
            f"{limit_bytes} bytes. Try again when the store is back. {STORE_TROUBLE}",
            entity_path=entity_path,
        )


STORE_TROUBLE: Final = "Reason:message-store"
"""Part of the text of a ServerBusy if the store is full or fails.

Every client should try again. A paired client, which can send to another namespace,
distinguishes it by this from throttling, where it should only wait. It is in the text
because SDKs pass on only the condition and the text of an error.
"""

STORE_IS_FULL: Final = (
    "The message store is full and cannot accept the operation. Free disk space on the "
    f"server, or receive messages, then try again. {STORE_TROUBLE}"
)


class StoreRefused(ServerBusy):
    """The message store could not take the operation on '{entity_path}'; nothing of it
    happened. Try again."""


class Overtaken(ServerBusy):
    """Another broker changed entities at the same moment. Nothing of this change
    happened: try again."""


class FragmentUnavailable(ServerBusy):
    """A fragment of the partitioned entity '{entity_path}' is not available, because
    its message store is away. Try again."""

    @classmethod
    def numbered(cls, index: int, entity_path: str) -> Self:
        """The one fragment that the operation needs is away."""
        return cls(
            f"Fragment {index} of '{entity_path}' is not available: its message store "
            f"is away. Try again, or send without a key. {STORE_TROUBLE}",
            entity_path=entity_path,
        )

    @classmethod
    def none_left(cls, entity_path: str) -> Self:
        return cls(
            f"No fragment of '{entity_path}' is available: all of its message stores "
            f"are away. Try again. {STORE_TROUBLE}",
            entity_path=entity_path,
        )

    @classmethod
    def dropped(cls, entity_path: str) -> Self:
        return cls(
            f"'{entity_path}' was not created: one of its message stores has another "
            f"owner since, which has dropped what was made. Try again. {STORE_TROUBLE}",
            entity_path=entity_path,
        )

    @classmethod
    def for_new_entity(cls, entity_path: str) -> Self:
        return cls(
            f"'{entity_path}' was not created: a partitioned entity needs all message "
            f"stores, and one is away. Try again when it is back. {STORE_TROUBLE}",
            entity_path=entity_path,
        )


STORE_IS_READ_ONLY: Final = (
    "The message store can only be read at present, so nothing of the operation "
    f"happened. Make its disk writable on the server, then try again. {STORE_TROUBLE}"
)


class UnauthorizedAccess(ServiceBusError):
    """Unauthorized access to '{entity_path}'. The token gives no claim to it, or is no
    longer valid."""

    condition = "amqp:unauthorized-access"
    http_status = 401
    retryable = False

    @classmethod
    def missing(cls, claims: str, *, entity_path: str) -> Self:
        """A claim such as `Send` is required and was not given."""
        return cls(
            f"Unauthorized access. '{claims}' claim(s) are required to perform this "
            f"operation. Resource: '{entity_path}'.",
            entity_path=entity_path,
        )


class AuthenticationFailed(ServiceBusError):
    """The credentials for '{entity_path}' could not be verified. Check the key
    name, the key, the resource and the expiry of the token."""

    condition = "com.microsoft:auth-failed"
    http_status = 401
    retryable = False


class ArgumentError(ServiceBusError):
    """An argument of the operation on '{entity_path}' is not valid."""

    condition = "com.microsoft:argument-error"
    http_status = 400
    retryable = False

    @classmethod
    def about(
        cls, name: str, *, value: object, expected: str, entity_path: str = ""
    ) -> Self:
        """The argument `name` has this value instead of what is expected."""
        where = f" for '{entity_path}'" if entity_path else ""
        return cls(
            f"The argument '{name}'{where} is {value!r}; expected {expected}.",
            entity_path=entity_path,
        )


class ArgumentOutOfRange(ServiceBusError):
    """An argument of the operation on '{entity_path}' is out of range."""

    condition = "com.microsoft:argument-out-of-range"
    http_status = 400
    retryable = False

    @classmethod
    def measured(
        cls,
        name: str,
        *,
        value: object,
        lowest: object,
        highest: object,
        entity_path: str = "",
    ) -> Self:
        """The argument `name` has this value, outside of lowest to highest."""
        where = f" for '{entity_path}'" if entity_path else ""
        return cls(
            f"The argument '{name}'{where} is {value}; it must be between {lowest} "
            f"and {highest}.",
            entity_path=entity_path,
        )


class NotAllowed(ServiceBusError):
    """The operation is not allowed on '{entity_path}'."""

    condition = "amqp:not-allowed"
    http_status = 400
    retryable = False

    @classmethod
    def sent_to_sub_queue(cls, path: str) -> Self:
        return cls(
            f"Messages cannot be sent to '{path}'; they get there by being "
            "dead-lettered.",
            entity_path=path,
        )


class NotSupported(ServiceBusError):
    """This server does not implement the operation on '{entity_path}'."""

    condition = "amqp:not-implemented"
    http_status = 501
    retryable = False


class OperationTimeout(ServiceBusError):
    """The operation on '{entity_path}' did not complete within the time allowed
    for it. Try again, or allow more time."""

    condition = "com.microsoft:timeout"
    http_status = 408
    retryable = True

    @classmethod
    def accepting(
        cls, session_id: str | None, *, entity_path: str
    ) -> "OperationTimeout":
        """No session was free within the time allowed."""
        which = "any session" if session_id is None else f"session '{session_id}'"
        return cls(
            f"Within the time allowed for it {which} of '{entity_path}' could not be "
            "accepted: those with messages are held by other receivers, or there "
            "are none. Try again, or allow more time.",
            entity_path=entity_path,
        )


class TransactionNotFound(ServiceBusError):
    """There is no such transaction on this connection: it was never declared here,
    is already discharged, or was rolled back with its control link. Declare another
    one."""

    condition = "amqp:transaction:unknown-id"
    http_status = 404
    retryable = False


class TransactionRolledBack(ServiceBusError):
    """The transaction was rolled back: none of its work was done, and locks are
    unchanged. Repeat its work in a new transaction."""

    condition = "amqp:transaction:rollback"
    http_status = 409
    retryable = True

    @classmethod
    def because(cls, reason: ServiceBusError) -> Self:
        """A part of the transaction could not be done."""
        return cls(
            "The transaction was rolled back, none of its work was done: "
            + reason.text,
            entity_path=reason.entity_path,
        )


class TransactionTimedOut(ServiceBusError):
    """The transaction was rolled back because it was not discharged in time. Repeat its
    work in a new transaction, and discharge it sooner."""

    condition = "amqp:transaction:timeout"
    http_status = 408
    retryable = True


class DetachForced(ServiceBusError):
    """The link to '{entity_path}' was detached by the server. Attach it again."""

    condition = "amqp:link:detach-forced"
    http_status = 503
    retryable = True


class ConnectionForced(ServiceBusError):
    """The connection was closed by the server. Connect again."""

    condition = "amqp:connection:forced"
    http_status = 503
    retryable = True


class InternalError(ServiceBusError):
    """The server failed to process the request for '{entity_path}'. See its log for
    this tracking id."""

    condition = "amqp:internal-error"
    http_status = 500
    retryable = True


ALL: tuple[type[ServiceBusError], ...] = (
    MessagingEntityNotFound,
    EntityAlreadyExists,
    EntityDisabled,
    MessageNotFound,
    MessageLockLost,
    SessionLockLost,
    SessionCannotBeLocked,
    ReaderLeaseHeld,
    ReaderLeaseLost,
    SessionNotFound,
    QuotaExceeded,
    MessageSizeExceeded,
    ServerBusy,
    UnauthorizedAccess,
    AuthenticationFailed,
    ArgumentError,
    ArgumentOutOfRange,
    NotAllowed,
    NotSupported,
    OperationTimeout,
    TransactionNotFound,
    TransactionRolledBack,
    TransactionTimedOut,
    DetachForced,
    ConnectionForced,
    InternalError,
)

BY_CONDITION: dict[str, type[ServiceBusError]] = {
    error.condition: error for error in ALL
}


def from_condition(
    condition: str, text: str | None = None, *, entity_path: str = ""
) -> ServiceBusError:
    """The error for a condition that a peer sent, for the client side.

    An unknown condition becomes the root class, which keeps the text.
    """
    error_class = BY_CONDITION.get(condition, ServiceBusError)
    return error_class(text, entity_path=entity_path)


class ForeignFragment(AssertionError):
    """A bug: a fragment was to be written into the change set of another store."""


class RowIdOutOfRange(AssertionError):
    """A bug: a number that is too large would belong to a row of another fragment."""
