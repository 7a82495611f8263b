"""Errors of a bus, with texts for users of Spark."""

from typing import Final

from twinbus.spark.plain_error import PlainError

READER_LEASE_LOST: Final = "twinbus:reader-lease-lost"


class BulkError(PlainError):
    """A bulk request failed. Its text names the entity and the remedy."""

    def __init__(
        self,
        text: str,
        *,
        condition: str = "",
        status: int = 0,
        is_retryable: bool = False,
    ) -> None:
        super().__init__(text)
        self.condition = condition
        self.status = status
        self.is_retryable = is_retryable

    def __reduce__(self) -> tuple[object, ...]:
        """Errors travel from executors to the driver."""
        return _bulk_error, (
            str(self),
            self.condition,
            self.status,
            self.is_retryable,
        )

    @property
    def is_missing(self) -> bool:
        """The entity does not exist, or was made again under the same name."""
        return self.condition == "amqp:not-found"

    @property
    def is_lease_held(self) -> bool:
        return self.condition == "twinbus:reader-lease-held"

    @property
    def is_lease_lost(self) -> bool:
        return self.condition == READER_LEASE_LOST


class NoHttp(BulkError):
    """The peer answers, but it is not a bus with bulk requests."""


def _bulk_error(
    text: str, condition: str, status: int, is_retryable: bool
) -> BulkError:
    return BulkError(
        text, condition=condition, status=status, is_retryable=is_retryable
    )
