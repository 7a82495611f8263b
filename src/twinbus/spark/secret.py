"""Credentials that are never shown, and are read where they are used.

`env:NAME` and `file:/path` are resolved in the process that needs the secret. So only
the reference is sent from the driver to the executors, pickled, logged and shown in
plans. A secret that is given as an option is sent with the options; its `repr` and
`str` are stars.
"""

import os
from typing import Final

from twinbus.client.secret_reference import (
    UnreadableReference,
    is_reference,
    read_reference,
)
from twinbus.spark.plain_error import PlainError

_HIDDEN: Final = "***"


class SecretError(PlainError, ValueError):
    """A credential cannot be read; the text says which and why, without its content."""


class Secret:
    """A secret, or where it is."""

    __slots__ = ("_reference", "_text")

    def __init__(
        self, *, text: str | None = None, reference: str | None = None
    ) -> None:
        self._text = text
        self._reference = reference

    @classmethod
    def parse(cls, option: str, value: str) -> "Secret":
        """From the option `credential`. Raises SecretError."""
        if is_reference(value) and value.partition(":")[2]:
            return cls(reference=value)
        raise SecretError(
            f"'{option}' must be env:NAME or file:/PATH, naming where the connection "
            "string is. To give the connection string itself use 'connectionString'."
        )

    def reveal(self) -> str:
        """The secret. Raises SecretError."""
        if self._text is not None:
            return self._text
        assert self._reference is not None
        try:
            return read_reference(self._reference, os.environ)
        except UnreadableReference as error:
            raise SecretError(
                f"The credential '{self._reference}' cannot be read on this host: "
                f"{error}. It is read on the driver and on every executor, in the "
                "environment with which Spark was started there."
            ) from None

    def __repr__(self) -> str:
        return self._reference or _HIDDEN

    __str__ = __repr__

    def __reduce__(self) -> tuple[object, ...]:
        return _secret, (self._text, self._reference)


def _secret(text: str | None, reference: str | None) -> Secret:
    return Secret(text=text, reference=reference)
