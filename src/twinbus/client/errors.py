"""Errors of the client; each carries the error that the peer sent, if it sent one."""

from twinbus.amqp.errors import AmqpError


class ClientError(Exception):
    """Base of all errors of the client. `error` is what the peer sent, if anything."""

    def __init__(self, text: str, error: AmqpError | None = None) -> None:
        super().__init__(text if error is None else f"{text}: {error}")
        self.error = error


class ConnectionLost(ClientError):
    """The connection was refused, closed or broken."""


class LinkClosed(ClientError):
    """The peer refused the link or detached it."""


class NotAccepted(ClientError):
    """A message or a settlement was not accepted; `outcome` is what it got instead."""

    def __init__(
        self, text: str, outcome: object, error: AmqpError | None = None
    ) -> None:
        super().__init__(f"{text}: {outcome!r}" if error is None else text, error)
        self.outcome = outcome


class RequestFailed(ClientError):
    """A request was answered with a status that is not a success."""

    def __init__(self, status: int, description: str) -> None:
        super().__init__(f"status {status}: {description}")
        self.status = status
        self.description = description
