"""Which context a command uses: the one it names, that of the shell, or the current."""

import os
from collections.abc import Mapping, MutableMapping
from typing import Final

from twinbus.cli.contexts.context_file import (
    CONTEXT_VARIABLE,
    ContextEntry,
    contexts_path,
    load_contexts,
)

REFERENCE: Final = "context:"
"""Begins a reference to a context where a connection string may be given."""

_AUTHORITY: Final = "SSL_CERT_FILE"


def named_context(name: str, environment: Mapping[str, str]) -> ContextEntry:
    """Raises Failure."""
    return load_contexts(contexts_path(environment)).get(name)


def current_context(environment: Mapping[str, str]) -> ContextEntry | None:
    """That of the variable, or the current one; None if there is neither. Raises
    Failure."""
    named = environment.get(CONTEXT_VARIABLE)
    contexts = load_contexts(contexts_path(environment))
    if named:
        return contexts.get(named)
    return contexts.get(contexts.current) if contexts.current else None


def opened_context(
    entry: ContextEntry, environment: MutableMapping[str, str] = os.environ
) -> str:
    """Its connection string. This process trusts its authority from now on, in place of
    one that the environment names for all servers. Raises Failure."""
    if entry.ca_file:
        environment[_AUTHORITY] = entry.ca_file
    return entry.connection_string(environment)
