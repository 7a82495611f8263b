"""What a shell completes: words that a flag may have, names of contexts and of
authorization rules, and paths of entities.

Nothing is printed and nothing fails: a shell that waits for words gets none. Entities
are asked for only as long as a person at the keyboard does not notice.
"""

import os
from collections.abc import Callable
from typing import Any, Final

import typer

_PATIENCE_SECONDS: Final = 1.0


def one_of(*words: str) -> Callable[[str], list[str]]:
    """One of these words."""

    def completed(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return completed


def amqp_types(incomplete: str) -> list[str]:
    """Of simple values."""
    from twinbus.encoding.typed_texts import TYPE_NAMES

    return [name for name in TYPE_NAMES if name.startswith(incomplete)]


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


def topic_paths(context: typer.Context, incomplete: str) -> list[str]:
    """Of topics."""
    return _paths(context.params, incomplete, ("queue", "subscription"))


def subscription_names(context: typer.Context, incomplete: str) -> list[str]:
    """Of the subscriptions of the topic that was named before."""
    start = f"{context.params.get('topic', '')}/Subscriptions/"
    found = _paths(context.params, start + incomplete, ("queue", "topic"))
    return [path[len(start) :] for path in found]


def rule_names(context: typer.Context, incomplete: str) -> list[str]:
    """Of the authorization rules of the namespace, or of the entity named before."""
    path = str(context.params.get("entity") or "")
    found = _asked(context.params, "list-keys", {"path": path})
    names: list[str] = [rule["key_name"] for rule in found]
    return [name for name in names if name.startswith(incomplete)]


def _paths(
    params: dict[str, Any], incomplete: str, without: tuple[str, ...]
) -> list[str]:
    return [
        entity["path"]
        for entity in _asked(params, "list-entities", {})
        if entity["kind"] not in without
        and entity["path"].lower().startswith(incomplete.lower())
    ]


def _asked(params: dict[str, Any], operation: str, arguments: dict[str, str]) -> Any:
    """The answer of the server that the command would ask; nothing if it has none."""
    from twinbus.cli.administration import ask
    from twinbus.cli.failure import Failure
    from twinbus.cli.server_choice import chosen_server

    names = ("connection_string", "context", "data", "catalog", "port")
    try:
        server = chosen_server({name: params.get(name) for name in names})
        return ask(server, operation, arguments, patience_seconds=_PATIENCE_SECONDS)
    except Failure:
        return []
