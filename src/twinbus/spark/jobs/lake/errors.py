"""Errors of a lake; their texts name the file and the remedy."""

from twinbus.spark.plain_error import PlainError


class LakeError(PlainError):
    """A lake cannot be used as it is, or as it was asked for."""


class LakeDamaged(LakeError):
    """A file of a lake is gone, torn or changed."""


def first_line(error: Exception) -> str:
    """What an error of Spark says, without where in Java it was."""
    java = getattr(error, "java_exception", None)
    return (str(error) if java is None else str(java.toString())).splitlines()[0]
