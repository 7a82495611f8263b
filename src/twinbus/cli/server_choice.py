"""Which server the flags of a command name, in this order:

    --connection-string
    --context
    --data, --catalog or --port: the server of this machine
    TWINBUS_CONNECTION_STRING
    TWINBUS_CONTEXT, or the current context
    the server of this machine

`flags` are those of a command that takes `entity_flags.SERVER`.
"""

import os
from collections.abc import Mapping
from typing import Any, Final

from twinbus.cli.contexts.context_choice import (
    current_context,
    named_context,
    opened_context,
)
from twinbus.cli.server_address import (
    given_connection_string,
    parsed,
    server_address,
    with_key,
)
from twinbus.client.connection_string import ConnectionString

_LOCAL: Final = ("data", "catalog", "port")


def chosen_server(flags: Mapping[str, Any]) -> ConnectionString:
    """Server and key. Raises Failure."""
    text = chosen_text(flags)
    return _local(flags) if text is None else with_key(parsed(text))


def chosen_connection_string(flags: Mapping[str, Any]) -> str:
    """As a text, with the secret; its right may be a signature. Raises Failure."""
    text = chosen_text(flags)
    return _local(flags).reveal() if text is None else text


def chosen_text(flags: Mapping[str, Any]) -> str | None:
    """The connection string that was given; None: the server of this machine."""
    given, name = flags["connection_string"], flags.get("context")
    if given:
        return given_connection_string(given, os.environ)
    if name:
        return opened_context(named_context(name, os.environ))
    if any(flags.get(each) is not None for each in _LOCAL):
        return None
    text = given_connection_string(None, os.environ)
    if text is None:
        entry = current_context(os.environ)
        text = None if entry is None else opened_context(entry)
    return text


def _local(flags: Mapping[str, Any]) -> ConnectionString:
    from twinbus.cli.settings import settings

    config = settings(**{name: flags.get(name) for name in _LOCAL})
    return server_address(None, config, {})
