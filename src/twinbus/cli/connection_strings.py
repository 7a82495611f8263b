"""Finds the connection string of a command: in a flag, a variable, or a file.

A connection string is a secret. Other users can see flags in the list of processes, so
a flag may name a file (`file:PATH`) or a context (`context:NAME`) instead. Nothing that
we print has any part of a connection string except the host.
"""

from collections.abc import Mapping
from typing import Final

from twinbus.cli import exit_codes
from twinbus.cli.contexts.context_choice import (
    REFERENCE,
    named_context,
    opened_context,
)
from twinbus.cli.failure import Failure
from twinbus.client.secret_reference import FILE, UnreadableReference, read_reference

PRIMARY: Final = "TWINBUS_PRIMARY"
SECONDARY: Final = "TWINBUS_SECONDARY"
"""Variables that name the two sides of a pair."""


def connection_string(
    given: str | None, flag: str, variable: str, environment: Mapping[str, str]
) -> str:
    """The connection string from the flag or the variable. Raises Failure."""
    text = given or environment.get(variable, "")
    if not text:
        raise Failure(
            f"A connection string is missing: give {flag}, or {variable}. Either may "
            "be file:PATH.",
            exit_codes.USAGE,
        )
    where = flag if given else variable
    if text.startswith(REFERENCE):
        name = text.removeprefix(REFERENCE)
        return opened_context(named_context(name, environment))
    if text.startswith(FILE):
        try:
            text = read_reference(text, environment)
        except UnreadableReference as error:
            raise Failure(f"{where}: {error}.", exit_codes.USAGE) from None
    if "endpoint=" not in text.lower():
        raise Failure(
            f"{where} is not a connection string: it must begin "
            "with Endpoint=sb://, or be file:PATH.",
            exit_codes.USAGE,
        )
    return text.strip()
