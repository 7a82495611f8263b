"""`twinbus entities create`: queues, topics, subscriptions and their rules."""

import json
from typing import Any

from twinbus.cli import exit_codes
from twinbus.cli.command_group import examples, group
from twinbus.cli.entity_flags import (
    SERVER,
    Action,
    CorrelationFilter,
    NewName,
    SqlFilter,
    Subscription,
    Topic,
    given_properties,
    property_flags,
)
from twinbus.cli.entity_questions import ask_server, show
from twinbus.cli.failure import Failure
from twinbus.cli.flags import takes

app = group(
    "create",
    "Create an entity.",
    examples(
        "twinbus entities create queue orders",
        "twinbus entities create topic events",
        "twinbus entities create subscription events billing",
    ),
)


@app.command(
    "queue",
    epilog=examples(
        "twinbus entities create queue orders",
        "twinbus entities create queue jobs --lock-duration 2m --max-delivery-count 3",
        "twinbus entities create queue events --default-message-time-to-live 1h",
    ),
)
@takes(*property_flags("q"), *SERVER)
def _queue(name: NewName, **flags: Any) -> None:
    """Create a queue. It can be used when the command returns."""
    _create("create-queue", name, flags)


@app.command(
    "topic",
    epilog=examples(
        "twinbus entities create topic events",
        "twinbus entities create topic events --default-message-time-to-live 7d",
    ),
)
@takes(*property_flags("t"), *SERVER)
def _topic(name: NewName, **flags: Any) -> None:
    """Create a topic. Messages that are sent to it go to its subscriptions."""
    _create("create-topic", name, flags)


@app.command(
    "subscription",
    epilog=examples(
        "twinbus entities create subscription events billing",
        "twinbus entities create subscription events audit --forward-to archive",
    ),
)
@takes(*property_flags("s"), *SERVER)
def _subscription(topic: Topic, name: NewName, **flags: Any) -> None:
    """Create a subscription of a topic. Its rule $Default takes every message."""
    _create("create-subscription", f"{topic}/Subscriptions/{name}", flags)


def _create(operation: str, path: str, flags: dict[str, Any]) -> None:
    properties = given_properties(flags)
    show(ask_server(flags, operation, path=path, properties=properties), flags)


@app.command(
    "rule",
    epilog=examples(
        "twinbus entities create rule events billing large --sql-filter 'total > 100'",
        "twinbus entities create rule events audit eu --correlation label=eu",
    ),
)
@takes(*SERVER)
def _rule(
    topic: Topic,
    subscription: Subscription,
    name: NewName,
    sql_filter: SqlFilter = None,
    correlation: CorrelationFilter = None,
    action: Action = None,
    **flags: Any,
) -> None:
    """Create a further rule of a subscription."""
    rule = _written_rule(name, sql_filter, correlation, action)
    path = f"{topic}/Subscriptions/{subscription}"
    show(ask_server(flags, "create-rule", path=path, rule=rule), flags)


def _written_rule(
    name: str,
    sql_filter: str | None,
    correlation: list[str] | None,
    action: str | None,
) -> str:
    """The rule as JSON. Raises Failure."""
    if sql_filter is not None and correlation:
        raise Failure("Give --sql-filter or --correlation, not both.", exit_codes.USAGE)
    from twinbus.config.rules import written_rule
    from twinbus.errors import ServiceBusError

    table: dict[str, Any] = {"name": name, "sql_filter": sql_filter, "action": action}
    if correlation:
        table["correlation_filter"] = _correlation(correlation)
    given_names = {key: value for key, value in table.items() if value is not None}
    try:
        return json.dumps(written_rule(given_names).to_json())
    except ServiceBusError as error:
        raise Failure(error.text, exit_codes.USAGE) from None
    except ValueError as error:
        raise Failure(f"{error}.", exit_codes.USAGE) from None


def _correlation(pairs: list[str]) -> dict[str, Any]:
    from twinbus.rules.filters import CORRELATION_FIELDS

    fields: dict[str, Any] = {}
    properties: dict[str, str] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator:
            raise Failure(
                f"'{pair}' is not NAME=VALUE, as in --correlation label=eu.",
                exit_codes.USAGE,
            )
        (fields if name in CORRELATION_FIELDS else properties)[name] = value
    return {**fields, "properties": properties} if properties else fields
