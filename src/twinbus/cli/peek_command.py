"""`twinbus peek`: its flags. What it does is in `messages/peeking.py`."""

from typing import Annotated, Any, Final

import typer

from twinbus.cli.command_group import examples
from twinbus.cli.flags import takes
from twinbus.cli.messages.message_flags import (
    OUTPUT,
    SHOWING_SERVER,
    DeadLetters,
    Source,
    source_path,
)

EXAMPLES: Final = examples(
    "twinbus peek orders",
    "twinbus peek orders --count 100 --json",
    "twinbus peek events/Subscriptions/audit --dead-letters --body",
    "twinbus peek orders --from 3 --count 1",
)


@takes(*OUTPUT, *SHOWING_SERVER)
def peek(
    entity: Source,
    count: Annotated[
        int, typer.Option("--count", metavar="N", min=1, help="At most N messages.")
    ] = 10,
    is_all: Annotated[bool, typer.Option("--all", help="All messages.")] = False,
    first: Annotated[
        int,
        typer.Option(
            "--from", metavar="N", min=0, help="From this sequence number on."
        ),
    ] = 0,
    session_id: Annotated[
        str | None,
        typer.Option("--session", metavar="ID", help="Only of this session."),
    ] = None,
    is_dead_letters: DeadLetters = False,
    **flags: Any,
) -> None:
    """Look at messages without receiving them.

    Active, deferred and scheduled messages are shown, and nothing changes.
    """
    import asyncio

    from twinbus.cli.failure import complain
    from twinbus.cli.messages.message_json import message_json
    from twinbus.cli.messages.message_output import MessageOutput
    from twinbus.cli.messages.namespace_side import opened_side, told_as_failure
    from twinbus.cli.messages.peeking import peeked_payloads
    from twinbus.cli.messages.progress import Progress, output_bar
    from twinbus.cli.server_choice import chosen_connection_string

    path = source_path(entity, is_dead_letters=is_dead_letters)
    text = chosen_connection_string(flags)
    output = MessageOutput(is_json=flags["is_json"], is_body=flags["is_body"])
    most = None if is_all else count

    async def work(progress: Progress) -> None:
        found = 0
        async with opened_side(text) as side:
            with told_as_failure(side, path):
                async for payloads in peeked_payloads(
                    side, path, count=most, first=first, session_id=session_id
                ):
                    found += len(payloads)
                    output.write(
                        message_json(one, has_raw=flags["has_raw"]) for one in payloads
                    )
                    progress(found)
            if not found and not flags["is_json"]:
                hint = await side.topic_hint(path)
                complain(hint or f"'{path}' has no message to show.")

    with output_bar("shown", most) as progress:
        asyncio.run(work(progress))
