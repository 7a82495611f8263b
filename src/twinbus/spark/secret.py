"""Credentials that show nothing, and are read where they are used.

`env:NAME` and `file:/path` are resolved in the process that needs the secret, so that
what travels from the driver to the executors, and what is pickled, logged or planned
on the way, is the reference. A text that is itself the secret travels with the options;
its `repr` and `str` are stars.
"""

import os
from pathlib import Path
from typing import Final

from twinbus.spark.plain_error import PlainError

_HIDDEN: Final = "***"
_ENV: Final = "env:"
_FILE: Final = "file:"


class SecretError(PlainError, ValueError):
    """A credential cannot be had; the text says which and why, not what is in it."""


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
        if value.startswith((_ENV, _FILE)) and value.partition(":")[2]:
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
        kind, _, name = self._reference.partition(":")
        found = os.environ.get(name) if kind == "env" else _file_text(name)
        if not found or not found.strip():
            raise SecretError(
                f"The credential '{self._reference}' is not there, or empty, on this "
                "host. It is read where it is used: on the driver and on every "
                "executor, in the environment with which Spark was started there."
            )
        return found.strip()

    def __repr__(self) -> str:
        return self._reference or _HIDDEN

    __str__ = __repr__

    def __reduce__(self) -> tuple[object, ...]:
        return _secret, (self._text, self._reference)


def _secret(text: str | None, reference: str | None) -> Secret:
    return Secret(text=text, reference=reference)


def _file_text(name: str) -> str | None:
    try:
        return Path(name).read_text()
    except (OSError, ValueError):
        return None
