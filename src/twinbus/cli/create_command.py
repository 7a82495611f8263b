"""`twinbus entities create`: queues, topics, subscriptions and their rules."""

import json
from typing import Any

from twinbus.cli import exit_codes
from twinbus.cli.command_group import examples, group
from twinbus.cli.entity_flags import (
    Action,
    AutoDelete,
    ConnectionString,
    CorrelationFilter,
    Data,
    DeadLettering,
    DeadLetteringFilterErrors,
    DuplicateWindow,
    ForwardDeadLetters,
    ForwardTo,
    Json,
    LockDuration,
    MaxDeliveryCount,
    MaxMessageSize,
    MaxSize,
    NewName,
    Port,
    RequiresDuplicateDetection,
    RequiresSession,
    SqlFilter,
    Status,
    Subscription,
    TimeToLive,
    Topic,
    UserMetadata,
    given,
)
from twinbus.cli.entity_questions import ask_server, show
from twinbus.cli.failure import Failure

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
def _queue(
    name: NewName,
    lock_duration: LockDuration = None,
    max_delivery_count: MaxDeliveryCount = None,
    default_message_time_to_live: TimeToLive = None,
    dead_lettering_on_message_expiration: DeadLettering = None,
    max_size_in_megabytes: MaxSize = None,
    max_message_size_in_kilobytes: MaxMessageSize = None,
    requires_session: RequiresSession = None,
    requires_duplicate_detection: RequiresDuplicateDetection = None,
    duplicate_detection_history_time_window: DuplicateWindow = None,
    forward_to: ForwardTo = None,
    forward_dead_lettered_messages_to: ForwardDeadLetters = None,
    auto_delete_on_idle: AutoDelete = None,
    status: Status = None,
    user_metadata: UserMetadata = None,
    connection_string: ConnectionString = None,
    data: Data = None,
    port: Port = None,
    is_json: Json = False,
) -> None:
    """Create a queue. It can be used when the command returns."""
    server = connection_string, data, port
    properties = given(locals())
    entity = ask_server(*server, "create-queue", path=name, properties=properties)
    show(entity, is_json)


@app.command(
    "topic",
    epilog=examples(
        "twinbus entities create topic events",
        "twinbus entities create topic events --default-message-time-to-live 7d",
    ),
)
def _topic(
    name: NewName,
    default_message_time_to_live: TimeToLive = None,
    max_size_in_megabytes: MaxSize = None,
    max_message_size_in_kilobytes: MaxMessageSize = None,
    requires_duplicate_detection: RequiresDuplicateDetection = None,
    duplicate_detection_history_time_window: DuplicateWindow = None,
    auto_delete_on_idle: AutoDelete = None,
    status: Status = None,
    user_metadata: UserMetadata = None,
    connection_string: ConnectionString = None,
    data: Data = None,
    port: Port = None,
    is_json: Json = False,
) -> None:
    """Create a topic. Messages that are sent to it go to its subscriptions."""
    server = connection_string, data, port
    properties = given(locals())
    entity = ask_server(*server, "create-topic", path=name, properties=properties)
    show(entity, is_json)


@app.command(
    "subscription",
    epilog=examples(
        "twinbus entities create subscription events billing",
        "twinbus entities create subscription events audit --forward-to archive",
    ),
)
def _subscription(
    topic: Topic,
    name: NewName,
    lock_duration: LockDuration = None,
    max_delivery_count: MaxDeliveryCount = None,
    default_message_time_to_live: TimeToLive = None,
    dead_lettering_on_message_expiration: DeadLettering = None,
    dead_lettering_on_filter_evaluation_exceptions: DeadLetteringFilterErrors = None,
    requires_session: RequiresSession = None,
    forward_to: ForwardTo = None,
    forward_dead_lettered_messages_to: ForwardDeadLetters = None,
    auto_delete_on_idle: AutoDelete = None,
    status: Status = None,
    user_metadata: UserMetadata = None,
    connection_string: ConnectionString = None,
    data: Data = None,
    port: Port = None,
    is_json: Json = False,
) -> None:
    """Create a subscription of a topic. Its rule $Default takes every message."""
    server = connection_string, data, port
    properties = given(locals())
    path = f"{topic}/Subscriptions/{name}"
    entity = ask_server(
        *server, "create-subscription", path=path, properties=properties
    )
    show(entity, is_json)


@app.command(
    "rule",
    epilog=examples(
        "twinbus entities create rule events billing large --sql-filter 'total > 100'",
        "twinbus entities create rule events audit eu --correlation label=eu",
    ),
)
def _rule(
    topic: Topic,
    subscription: Subscription,
    name: NewName,
    sql_filter: SqlFilter = None,
    correlation: CorrelationFilter = None,
    action: Action = None,
    connection_string: ConnectionString = None,
    data: Data = None,
    port: Port = None,
    is_json: Json = False,
) -> None:
    """Create a further rule of a subscription."""
    rule = _written_rule(name, sql_filter, correlation, action)
    server = connection_string, data, port
    path = f"{topic}/Subscriptions/{subscription}"
    entity = ask_server(*server, "create-rule", path=path, rule=rule)
    show(entity, is_json)


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
