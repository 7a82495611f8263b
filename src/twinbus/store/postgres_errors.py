"""What PostgreSQL's errors mean to the owner of a store.

What matters is whether a transaction has happened. An error that the server reports of
a statement says: it has not. If the connection is lost while a commit is under way,
nobody knows before the store is asked again. The same holds for an error that is not
the server's: what psycopg says of a pipeline in disorder may hide the loss.

Texts of errors never show a password: libpq does not put it into its messages, and
what it may repeat of a URL is not shown at all.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
from psycopg import errors

from twinbus.store.base import (
    CommitFailed,
    CommitUnknown,
    LeaseLost,
    StoreError,
    StoreFull,
    StoreInUse,
    StoreUnreadable,
)

_FULL: Final = (errors.DiskFull, errors.OutOfMemory, errors.ConfigurationLimitExceeded)
_DAMAGED: Final = (errors.DataCorrupted, errors.IndexCorrupted)
_AWAY: Final = (
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.IdleInTransactionSessionTimeout,
    errors.ReadOnlySqlTransaction,
)
"""The server stops, starts, or has become a standby: another connection may find the
one that can write."""

_ENDS_THE_CONNECTION: Final = ("FATAL", "PANIC")


class ServerLost(StoreError):
    """The server did not answer; what it was asked may have happened or not."""


def is_lost(error: psycopg.Error, connection: psycopg.AsyncConnection[object]) -> bool:
    """Another connection is needed."""
    return (
        connection.closed
        or error.diag.sqlstate is None
        or error.diag.severity_nonlocalized in _ENDS_THE_CONNECTION
        or isinstance(error, _AWAY)
    )


def lost(location: str, error: BaseException) -> ServerLost:
    return ServerLost(f"{location}: the connection was lost: {first_line(error)}")


def refusal(location: str, error: psycopg.Error) -> StoreError:
    """Why nothing was written."""
    if isinstance(error, _FULL):
        return StoreFull(f"The server of {location} has no room: {first_line(error)}.")
    if isinstance(error, errors.NotNullViolation) and error.diag.column_name == "batch":
        return lease_lost(location)
    return CommitFailed(f"{location} refused a commit: {first_line(error)}")


def lease_lost(location: str) -> LeaseLost:
    return LeaseLost(f"{location} has been taken over by another broker.")


def unreadable(location: str, why: str) -> StoreUnreadable:
    """A refusal that says what to do."""
    return StoreUnreadable(
        f"{location} cannot be read: {why}. Restore a backup of the database, or "
        "choose another schema to start with an empty store."
    )


@contextmanager
def reading(location: str) -> Iterator[None]:
    """Errors of what only reads. Raises StoreUnreadable, StoreFull, StoreError."""
    try:
        yield
    except _DAMAGED as error:
        raise unreadable(location, first_line(error)) from error
    except _FULL as error:
        raise refusal(location, error) from error
    except errors.UndefinedTable as error:
        raise unreadable(location, first_line(error)) from error
    except psycopg.Error as error:
        raise StoreError(
            f"{location} could not be read: {first_line(error)}"
        ) from error


@contextmanager
def connecting(location: str) -> Iterator[None]:
    """Errors before there is a connection. Raises StoreError."""
    try:
        yield
    except errors.LockNotAvailable as error:
        raise StoreInUse(
            f"{location} is locked by another connection: {first_line(error)}. "
            "Try again."
        ) from error
    except errors.InsufficientPrivilege as error:
        raise StoreError(
            f"{location}: {first_line(error)}. Grant the user CREATE on the database, "
            "or create the schema for it."
        ) from error
    except psycopg.Error as error:
        raise StoreError(
            f"{location} could not be reached: {first_line(error)}"
        ) from error


def as_unknown(error: ServerLost) -> CommitUnknown:
    return CommitUnknown(f"A commit may have failed. {error}")


def first_line(error: BaseException) -> str:
    """PostgreSQL's texts go on with hints, and with values of rows."""
    if isinstance(error, psycopg.Error) and error.diag.message_primary:
        return error.diag.message_primary
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
