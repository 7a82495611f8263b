"""What a namespace refused, as Spark's users read it."""

from twinbus.spark.plain_error import PlainError


class PortableError(PlainError):
    """A request to a namespace failed. Its text names the entity and the remedy."""


class EntityMissing(PortableError):
    """There is no such queue or subscription."""


class SessionsRequired(PortableError):
    """The entity hands out messages by session alone."""


class SessionTaken(PortableError):
    """Another receiver holds the session, or no session has messages."""


class LockLost(PortableError):
    """A lock of these messages has ended, or the session's has."""


class NotDeferred(PortableError):
    """A message of that number is not there, or not deferred, or locked."""
