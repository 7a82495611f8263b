"""What an error of the SDK hides."""

from azure.core.exceptions import AzureError


def condition_of(error: AzureError) -> str:
    """The AMQP error condition, which otherwise is only part of a text."""
    condition = getattr(error, "_condition", None)
    value = getattr(condition, "value", condition)
    return value.decode() if isinstance(value, bytes) else str(value or "")


def token_status_of(error: BaseException | None) -> int | None:
    """The status that `$cbs` answered with, if that is what failed.

    The SDK raises an authentication error for every answer, also for 404, an entity
    that does not exist. The status is in the error that it wraps.
    """
    status = getattr(error, "status_code", None)
    return status if isinstance(status, int) else None


def requires_sessions(error: BaseException) -> bool:
    """A receiver was opened without a session at an entity that requires them."""
    is_refused = isinstance(error, AzureError) and (
        condition_of(error) == "amqp:not-allowed"
    )
    return is_refused and "session" in str(error).lower()
