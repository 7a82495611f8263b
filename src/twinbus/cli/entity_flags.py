"""Flags and arguments of `twinbus entities`, named after the SDK's properties."""

import json
from typing import Annotated, Any, Final

import typer

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.cli.setting_flags import setting_flag

Text = str | None
Number = int | None

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="Path of the entity. A subscription is TOPIC/Subscriptions/NAME, a rule "
        "TOPIC/Subscriptions/NAME/Rules/RULE.",
    ),
]
NewName = Annotated[str, typer.Argument(metavar="NAME", help="Its name.")]
Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="Path of the topic.")]
Subscription = Annotated[
    str, typer.Argument(metavar="SUBSCRIPTION", help="Name of the subscription.")
]
ConnectionString = Annotated[
    Text,
    typer.Option(
        "--connection-string",
        metavar="TEXT",
        help="Server and key. Default: the server of this machine. "
        "(TWINBUS_CONNECTION_STRING)",
    ),
]
Data = Annotated[Text, setting_flag("data", "Where that server keeps its key.")]
Port = Annotated[Text, setting_flag("port", "Port of the server of this machine.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]

LockDuration = Annotated[
    Text,
    typer.Option(
        metavar="DURATION",
        help="How long a received message stays locked, 5s to 5m.",
    ),
]
MaxDeliveryCount = Annotated[
    Number,
    typer.Option(
        metavar="N", help="Deliveries after which a message is dead-lettered."
    ),
]
TimeToLive = Annotated[
    Text,
    typer.Option(
        metavar="DURATION",
        help="Time to live of messages that have none of their own; or: unlimited.",
    ),
]
DeadLettering = Annotated[
    bool | None,
    typer.Option(help="Whether expired messages are dead-lettered or dropped."),
]
DeadLetteringFilterErrors = Annotated[
    bool | None,
    typer.Option(
        help="Of a subscription: whether a message is dead-lettered if a filter cannot "
        "be evaluated for it. If not, the subscription does not get it."
    ),
]
MaxSize = Annotated[
    Number,
    typer.Option(
        metavar="N",
        help="1024, 2048, 3072, 4096 or 5120; up to 81920 if the server allows it.",
    ),
]
MaxMessageSize = Annotated[
    Number,
    typer.Option(metavar="N", help="Size of the largest message; 0: server's limit."),
]
Status = Annotated[
    Text,
    typer.Option(
        metavar="STATUS", help="Active, Disabled, SendDisabled or ReceiveDisabled."
    ),
]
UserMetadata = Annotated[
    Text, typer.Option(metavar="TEXT", help="Any text; it is kept with the entity.")
]
RequiresSession = Annotated[
    bool | None, typer.Option(help="Whether messages belong to sessions.")
]
RequiresDuplicateDetection = Annotated[
    bool | None,
    typer.Option(help="Whether a message is dropped if its id was seen before."),
]
DuplicateWindow = Annotated[
    Text,
    typer.Option(
        metavar="DURATION", help="How long message ids are remembered, 20s to 7d."
    ),
]
ForwardTo = Annotated[
    Text,
    typer.Option(metavar="PATH", help="Where messages are forwarded to; '' for none."),
]
ForwardDeadLetters = Annotated[
    Text,
    typer.Option(
        metavar="PATH", help="Where dead letters are forwarded to; '' for none."
    ),
]
AutoDelete = Annotated[
    Text,
    typer.Option(
        metavar="DURATION",
        help="The entity is deleted if it is unused for so long, 5m or more; or: "
        "unlimited.",
    ),
]
SqlFilter = Annotated[
    Text,
    typer.Option(metavar="SQL", help="Which messages match, such as: amount > 100."),
]
CorrelationFilter = Annotated[
    list[str] | None,
    typer.Option(
        "--correlation",
        metavar="NAME=VALUE",
        help="Messages match that have this property, such as label=eu. If it is given "
        "several times, all must match. A name that is not a property of Service Bus "
        "means an application property.",
    ),
]
Action = Annotated[
    Text,
    typer.Option(metavar="SQL", help="What the rule changes, such as: SET eu = TRUE."),
]

PROPERTIES: Final = (
    "lock_duration",
    "max_delivery_count",
    "default_message_time_to_live",
    "dead_lettering_on_message_expiration",
    "dead_lettering_on_filter_evaluation_exceptions",
    "max_size_in_megabytes",
    "max_message_size_in_kilobytes",
    "status",
    "user_metadata",
    "requires_session",
    "requires_duplicate_detection",
    "duplicate_detection_history_time_window",
    "forward_to",
    "forward_dead_lettered_messages_to",
    "auto_delete_on_idle",
)


def given(arguments: dict[str, Any]) -> str:
    """The properties that were given to a command, as JSON. Raises Failure."""
    from twinbus.config.entities import entity_properties

    properties = {
        name: arguments[name] for name in PROPERTIES if arguments.get(name) is not None
    }
    try:
        return json.dumps(entity_properties(properties))
    except ValueError as error:
        raise Failure(str(error), exit_codes.USAGE) from None
