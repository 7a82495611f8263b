"""`twinbus purge`: its flags. What it does is in `messages/purging.py`."""

import json
from typing import Annotated, Any, Final

import typer

from twinbus.cli.command_group import examples
from twinbus.cli.confirming import Yes, make_sure
from twinbus.cli.entity_flags import SERVER
from twinbus.cli.flags import takes
from twinbus.cli.messages.message_flags import DeadLetters, Source, source_path

EXAMPLES: Final = examples(
    "twinbus purge orders --dead-letters --yes",
    "twinbus purge orders --every-state --yes",
    "twinbus purge events/Subscriptions/audit --yes --json",
)


@takes(*SERVER)
def purge(
    entity: Source,
    is_dead_letters: DeadLetters = False,
    is_every_state: Annotated[
        bool,
        typer.Option("--every-state", help="Deferred and scheduled messages, too."),
    ] = False,
    is_sure: Yes = False,
    **flags: Any,
) -> None:
    """Remove all messages of an entity for good.

    Those that come meanwhile stay, and those that a receiver holds.
    """
    path = source_path(entity, is_dead_letters=is_dead_letters)
    if not is_sure:
        make_sure("remove", f"all messages of '{path}'")
    import asyncio

    from twinbus.cli.messages.namespace_side import opened_side
    from twinbus.cli.messages.progress import Progress, progress_bar
    from twinbus.cli.messages.purging import purge as purge_messages
    from twinbus.cli.server_choice import chosen_connection_string

    text = chosen_connection_string(flags)

    async def work(progress: Progress) -> int:
        async with opened_side(text) as side:
            return await purge_messages(
                side, path, progress, is_every_state=is_every_state
            )

    with progress_bar("removed", None) as progress:
        removed = asyncio.run(work(progress))
    is_json = flags["is_json"]
    print(json.dumps({"removed": removed}) if is_json else f"Removed: {removed}.")
