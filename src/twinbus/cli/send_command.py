"""`twinbus send`: its flags. What it does is in `messages/sending.py`."""

import json
from typing import Annotated, Any, Final

import typer

from twinbus.cli import exit_codes
from twinbus.cli.command_group import examples
from twinbus.cli.completion import amqp_types, queue_paths
from twinbus.cli.entity_flags import SERVER
from twinbus.cli.failure import Failure
from twinbus.cli.flags import flag, takes

EXAMPLES: Final = examples(
    "twinbus send orders 'one tea, please'",
    "twinbus send orders 'two' --property n=int:2 --subject tea --time-to-live 1h",
    "twinbus send orders --file order.json --content-type application/json",
    "seq 1 1000 | twinbus send orders --lines - --json",
    "twinbus peek orders --json | twinbus send archive --json-lines -",
)

Entity = Annotated[
    str,
    typer.Argument(
        metavar="ENTITY", help="Path of a queue or topic.", autocompletion=queue_paths
    ),
]
Body = Annotated[
    str | None,
    typer.Argument(metavar="[BODY]", help="The body, a text.", show_default=False),
]
Files = Annotated[
    list[str] | None,
    typer.Option(
        "--file",
        metavar="FILE",
        help="A file with the body, of any content; - is standard input. May be "
        "repeated: a message each.",
    ),
]
Lines = Annotated[
    str | None,
    typer.Option(
        "--lines", metavar="FILE", help="A message for each line of a file, or of -."
    ),
]
JsonLines = Annotated[
    str | None,
    typer.Option(
        "--json-lines",
        metavar="FILE",
        help="A message for each line of JSON, as 'twinbus receive --json' prints "
        "them. Flags say what a line does not.",
    ),
]
Properties = Annotated[
    list[str] | None,
    typer.Option(
        "--property",
        metavar="NAME=VALUE",
        help="An application property. It is a string; NAME=TYPE:VALUE has another "
        "type: boolean, int, long, double, uuid, timestamp, ... May be repeated.",
    ),
]
Count = Annotated[
    int, typer.Option("--count", metavar="N", min=1, help="Send it N times.")
]
Rate = Annotated[
    float | None,
    typer.Option(
        "--rate",
        metavar="N",
        min=0.01,
        help="At most N messages in a second. Default: as fast as possible.",
        show_default=False,
    ),
]


def _text(name: str, help: str) -> Any:
    option = typer.Option(f"--{name.replace('_', '-')}", metavar="TEXT", help=help)
    return flag(name, Annotated[str | None, option])


_FIELDS: Final = (
    _text("message_id", "Id of the message. Default: the bus makes one."),
    _text("session_id", "Its session."),
    _text("partition_key", "Messages with the same key stay in order."),
    _text("subject", "What it is about, also called label."),
    _text("correlation_id", "What it answers."),
    _text("content_type", "Such as application/json."),
    _text("to", "To whom, for the receiver to read."),
    _text("reply_to", "Where to answer."),
    _text("reply_to_session_id", "In which session to answer."),
)
_TIMES: Final = (
    flag(
        "time_to_live",
        Annotated[
            str | None,
            typer.Option(metavar="DURATION", help="How long it lives, such as 90s."),
        ],
    ),
    flag(
        "schedule",
        Annotated[
            str | None,
            typer.Option(
                metavar="WHEN",
                help="When it becomes visible: a time in ISO 8601, or after a duration "
                "such as 5m.",
            ),
        ],
    ),
    flag(
        "body_type",
        Annotated[
            str | None,
            typer.Option(
                metavar="TYPE",
                help="The body is an AMQP value of this type, such as string "
                "or long. Default: data, as SDKs send it.",
                autocompletion=amqp_types,
            ),
        ],
    ),
)


@takes(*_FIELDS, *_TIMES, *SERVER)
def send(
    entity: Entity,
    body: Body = None,
    files: Files = None,
    lines: Lines = None,
    json_lines: JsonLines = None,
    properties: Properties = None,
    count: Count = 1,
    rate: Rate = None,
    **flags: Any,
) -> None:
    """Send messages to a queue or topic.

    The body is an argument, a file, or each line of a file. Messages go out in batches,
    in order, and are durable when the command says how many it has sent.
    """
    given = [source is not None for source in (body, files, lines, json_lines)]
    if sum(given) != 1:
        raise Failure(
            "Give the body, or one of --file, --lines and --json-lines; their '-' is "
            "standard input.",
            exit_codes.USAGE,
        )
    if count > 1 and (lines or json_lines):
        raise Failure(
            "--count repeats a body or a file; leave it out with --lines and "
            "--json-lines.",
            exit_codes.USAGE,
        )
    import asyncio

    from twinbus.cli.messages import draft_sources
    from twinbus.cli.messages.draft_flags import flag_draft
    from twinbus.cli.messages.namespace_side import opened_side
    from twinbus.cli.messages.progress import Progress, progress_bar
    from twinbus.cli.messages.sending import send_all
    from twinbus.cli.server_choice import chosen_connection_string

    defaults = flag_draft(flags, properties or ())
    total = None
    if body is not None:
        drafts, total = draft_sources.body_drafts(body, defaults, count), count
    elif files is not None:
        total = count * len(files)
        drafts = draft_sources.file_drafts(files, defaults, count)
    elif lines is not None:
        drafts = draft_sources.line_drafts(lines, defaults)
    else:
        assert json_lines is not None
        drafts = draft_sources.json_drafts(json_lines, defaults)
    text = chosen_connection_string(flags)

    async def work(progress: Progress) -> int:
        async with opened_side(text) as side:
            return await send_all(side, entity, drafts, progress, rate or 0)

    with progress_bar("sent", total) as progress:
        sent = asyncio.run(work(progress))
    print(json.dumps({"sent": sent}) if flags["is_json"] else f"Sent: {sent}.")
