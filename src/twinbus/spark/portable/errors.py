"""Errors of a namespace, with texts for users of Spark."""

from twinbus.spark.plain_error import PlainError


class PortableError(PlainError):
    """A request to a namespace failed. Its text names the entity and the remedy."""


class EntityMissing(PortableError):
    """There is no such queue or subscription."""


class SessionsRequired(PortableError):
    """The entity gives out messages by session only."""


class SessionTaken(PortableError):
    """Another receiver holds the session, or no session has messages."""


class LockLost(PortableError):
    """A lock of these messages has ended, or the session's has."""


class NotDeferred(PortableError):
    """The message of that number does not exist, is not deferred, or is locked."""
