"""Flags and arguments of commands that ask a running server about entities.

The flags of an entity's properties are made from a table. They are named after the
properties in the SDK.
"""

import json
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from twinbus.cli import exit_codes
from twinbus.cli.completion import (
    context_names,
    entity_paths,
    subscription_names,
    topic_paths,
)
from twinbus.cli.failure import Failure
from twinbus.cli.flags import Flag, flag, setting_flag

Text = str | None

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="Path of the entity. A subscription is TOPIC/Subscriptions/NAME, a rule "
        "TOPIC/Subscriptions/NAME/Rules/RULE.",
        autocompletion=entity_paths,
    ),
]
Patterns = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[PATTERN]...",
        help="Paths of entities, such as 'orders*'. Default: all.",
        show_default=False,
        autocompletion=entity_paths,
    ),
]
NewName = Annotated[str, typer.Argument(metavar="NAME", help="Its name.")]
Topic = Annotated[
    str,
    typer.Argument(
        metavar="TOPIC", help="Path of the topic.", autocompletion=topic_paths
    ),
]
Subscription = Annotated[
    str,
    typer.Argument(
        metavar="SUBSCRIPTION",
        help="Name of the subscription.",
        autocompletion=subscription_names,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]

CONNECTION_STRING: Final = flag(
    "connection_string",
    Annotated[
        Text,
        typer.Option(
            "--connection-string",
            metavar="TEXT",
            help="Server and key, or file:PATH. Default: the current context, or the "
            "server of this machine. (TWINBUS_CONNECTION_STRING)",
        ),
    ],
)
CONTEXT: Final = flag(
    "context",
    Annotated[
        Text,
        typer.Option(
            "--context",
            metavar="NAME",
            help="A context, of 'twinbus context list'. (TWINBUS_CONTEXT)",
            autocompletion=context_names,
        ),
    ],
)
SERVER: Final = (
    CONNECTION_STRING,
    CONTEXT,
    setting_flag("data", "Where that server keeps its key."),
    setting_flag("catalog", "Where it keeps its entities, and the key, instead."),
    setting_flag("port", "Port of the server of this machine."),
    flag("is_json", Json, default=False),
)

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


@dataclass(frozen=True, slots=True)
class PropertyFlag:
    """A property of entities, as a flag."""

    name: str
    # The letters of the kinds that have it: queue, topic, subscription. With `u` it can
    # be updated.
    kinds: str
    # Without one, the flag is `--name` or `--no-name`.
    metavar: str
    help: str

    def flag(self) -> Flag:
        values = {"": bool, "N": int}
        value = values.get(self.metavar, str)
        option = typer.Option(metavar=self.metavar or None, help=self.help)
        return flag(self.name, Annotated[value | None, option])


PROPERTIES: Final = (
    PropertyFlag(
        *("lock_duration", "qsu", "DURATION"),
        "How long a received message stays locked, 5s to 5m.",
    ),
    PropertyFlag(
        *("max_delivery_count", "qsu", "N"),
        "Deliveries after which a message is dead-lettered.",
    ),
    PropertyFlag(
        *("default_message_time_to_live", "qtsu", "DURATION"),
        "Time to live of messages that have none of their own; or: unlimited.",
    ),
    PropertyFlag(
        *("dead_lettering_on_message_expiration", "qsu", ""),
        "Whether expired messages are dead-lettered or dropped.",
    ),
    PropertyFlag(
        *("dead_lettering_on_filter_evaluation_exceptions", "su", ""),
        "Of a subscription: whether a message is dead-lettered if a filter cannot be "
        "evaluated for it. If not, the subscription does not get it.",
    ),
    PropertyFlag(
        *("max_size_in_megabytes", "qtu", "N"),
        "1024, 2048, 3072, 4096 or 5120; up to 81920 if the server allows it.",
    ),
    PropertyFlag(
        *("max_message_size_in_kilobytes", "qtu", "N"),
        "Size of the largest message; 0: server's limit.",
    ),
    PropertyFlag(
        *("enable_partitioning", "qt", ""),
        "Whether it is spread over fragments in all message stores. "
        "--max-size-in-megabytes is then the size of each.",
    ),
    PropertyFlag("requires_session", "qs", "", "Whether messages belong to sessions."),
    PropertyFlag(
        *("requires_duplicate_detection", "qt", ""),
        "Whether a message is dropped if its id was seen before.",
    ),
    PropertyFlag(
        *("duplicate_detection_history_time_window", "qtu", "DURATION"),
        "How long message ids are remembered, 20s to 7d.",
    ),
    PropertyFlag(
        *("forward_to", "qsu", "PATH"),
        "Where messages are forwarded to; '' for none.",
    ),
    PropertyFlag(
        *("forward_dead_lettered_messages_to", "qsu", "PATH"),
        "Where dead letters are forwarded to; '' for none.",
    ),
    PropertyFlag(
        *("auto_delete_on_idle", "qtsu", "DURATION"),
        "The entity is deleted if it is unused for so long, 5m or more; or: unlimited.",
    ),
    PropertyFlag(
        *("status", "qtsu", "STATUS"),
        "Active, Disabled, SendDisabled or ReceiveDisabled.",
    ),
    PropertyFlag(
        *("user_metadata", "qtsu", "TEXT"), "Any text; it is kept with the entity."
    ),
)


def property_flags(kind: str) -> tuple[Flag, ...]:
    """The flags of a kind of entity, by its letter; `u` for an update."""
    return tuple(each.flag() for each in PROPERTIES if kind in each.kinds)


def given_properties(flags: dict[str, Any]) -> str:
    """The properties that were given to a command, as JSON. Raises Failure."""
    from twinbus.config.entities import entity_properties

    names = [each.name for each in PROPERTIES]
    given = {name: flags[name] for name in names if flags.get(name) is not None}
    try:
        return json.dumps(entity_properties(given))
    except ValueError as error:
        raise Failure(str(error), exit_codes.USAGE) from None
