"""What a shell completes: names of contexts, and paths of entities.

Nothing is printed and nothing fails: a shell that waits for words gets none. Entities
are asked for only as long as a person at the keyboard does not notice.
"""

import os
from typing import Any, Final

import typer

_PATIENCE_SECONDS: Final = 1.0


def context_names(incomplete: str) -> list[str]:
    """Of the contexts that there are."""
    from twinbus.cli.contexts.context_file import contexts_path, load_contexts
    from twinbus.cli.failure import Failure

    try:
        known = load_contexts(contexts_path(os.environ)).entries
    except Failure:
        return []
    return [name for name in sorted(known) if name.startswith(incomplete)]


def entity_paths(context: typer.Context, incomplete: str) -> list[str]:
    """Of the entities of the server that the command would ask."""
    return _paths(context.params, incomplete, ())


def queue_paths(context: typer.Context, incomplete: str) -> list[str]:
    """Of queues and topics: what can be sent to."""
    return _paths(context.params, incomplete, ("subscription",))


def source_paths(context: typer.Context, incomplete: str) -> list[str]:
    """Of queues and subscriptions: what can be received from."""
    return _paths(context.params, incomplete, ("topic",))


def _paths(
    params: dict[str, Any], incomplete: str, without: tuple[str, ...]
) -> list[str]:
    from twinbus.cli.administration import ask
    from twinbus.cli.failure import Failure
    from twinbus.cli.server_choice import chosen_server

    names = ("connection_string", "context", "data", "catalog", "port")
    try:
        server = chosen_server({name: params.get(name) for name in names})
        found = ask(server, "list-entities", {}, patience_seconds=_PATIENCE_SECONDS)
    except Failure:
        return []
    return [
        entity["path"]
        for entity in found
        if entity["kind"] not in without
        and entity["path"].lower().startswith(incomplete.lower())
    ]
