"""`twinbus receive`: its flags. What it does is in `messages/receiving.py`."""

from typing import Annotated, Any, Final

import typer

from twinbus.cli import exit_codes
from twinbus.cli.command_group import examples
from twinbus.cli.completion import one_of
from twinbus.cli.failure import Failure
from twinbus.cli.flags import takes
from twinbus.cli.messages.message_flags import (
    OUTPUT,
    SHOWING_SERVER,
    DeadLetters,
    Source,
    source_path,
)

EXAMPLES: Final = examples(
    "twinbus receive orders",
    "twinbus receive orders --count 100 --json",
    "twinbus receive events/Subscriptions/audit --all --body",
    "twinbus receive orders --settle dead-letter --reason Impossible --max-wait 1s",
    "twinbus receive orders --dead-letters --delete --all",
    "twinbus receive orders --follow --json",
)

Count = Annotated[
    int,
    typer.Option("--count", metavar="N", min=1, help="End after N messages."),
]
All = Annotated[
    bool,
    typer.Option("--all", help="End when nothing comes any more for --max-wait."),
]
Follow = Annotated[
    bool,
    typer.Option(
        "--follow", help="Do not end; go on after the connection was lost, too."
    ),
]
MaxWait = Annotated[
    str,
    typer.Option(
        "--max-wait",
        metavar="DURATION",
        help="End if no message comes for so long.",
    ),
]
Settle = Annotated[
    str,
    typer.Option(
        "--settle",
        metavar="HOW",
        help="What becomes of a message after it was printed: complete, abandon, "
        "dead-letter or defer. Abandoned ones are given back at the end.",
        autocompletion=one_of("complete", "abandon", "dead-letter", "defer"),
    ),
]
Delete = Annotated[
    bool,
    typer.Option(
        "--delete",
        help="Receive and delete: faster, but what is on its way is lost if the "
        "command is killed.",
    ),
]
Reason = Annotated[
    str | None,
    typer.Option("--reason", metavar="TEXT", help="Of --settle dead-letter."),
]
Description = Annotated[
    str | None,
    typer.Option("--description", metavar="TEXT", help="Of --settle dead-letter."),
]
Session = Annotated[
    str | None,
    typer.Option("--session", metavar="ID", help="Receive from this session."),
]
NextSession = Annotated[
    bool,
    typer.Option(
        "--next-session",
        help="Receive from the next session that is free; with --all or --follow, from "
        "one after the other, each until nothing comes for --max-wait.",
    ),
]
Numbers = Annotated[
    list[int] | None,
    typer.Option(
        "--sequence-number",
        metavar="N",
        help="Receive this deferred message; may be repeated.",
    ),
]


@takes(*OUTPUT, *SHOWING_SERVER)
def receive(
    entity: Source,
    count: Count = 1,
    is_all: All = False,
    is_following: Follow = False,
    max_wait: MaxWait = "5s",
    settle: Settle = "complete",
    is_delete: Delete = False,
    reason: Reason = None,
    description: Description = None,
    session_id: Session = None,
    is_next_session: NextSession = False,
    numbers: Numbers = None,
    is_dead_letters: DeadLetters = False,
    **flags: Any,
) -> None:
    """Receive messages, print them, and settle them.

    A message is settled after it was printed: none is lost if the command is killed.
    """
    import asyncio

    from twinbus.cli.failure import complain
    from twinbus.cli.messages import receiving
    from twinbus.cli.messages.draft_flags import duration_of
    from twinbus.cli.messages.message_output import MessageOutput
    from twinbus.cli.messages.namespace_side import opened_side
    from twinbus.cli.messages.progress import Progress, output_bar
    from twinbus.cli.server_choice import chosen_connection_string

    _check_combination(
        ("--session", session_id is not None, "--next-session", is_next_session),
        ("--all", is_all, "--follow", is_following),
        ("--delete", is_delete, "--settle", settle != "complete"),
        ("--body", flags["is_body"], "--json", flags["is_json"]),
    )
    has_reason = reason is not None or description is not None
    _check_settlement(settle, is_following=is_following, has_reason=has_reason)
    wait_ms = duration_of(max_wait, "--max-wait")
    is_for_ever = is_following and not is_next_session
    wanted = receiving.WantedMessages(
        entity=source_path(entity, is_dead_letters=is_dead_letters),
        count=None if is_all or is_following else count,
        wait_seconds=None if is_for_ever or not wait_ms else wait_ms / 1000,
        is_following=is_following,
        settlement=receiving.DELETE if is_delete else settle,
        reason=reason,
        description=description,
        is_session=session_id is not None or is_next_session,
        session_id=session_id,
        has_raw=flags["has_raw"],
    )
    text = chosen_connection_string(flags)
    output = MessageOutput(is_json=flags["is_json"], is_body=flags["is_body"])

    async def work(progress: Progress) -> int:
        async with opened_side(text) as side:
            if numbers:
                return await receiving.receive_deferred(
                    side, wanted, numbers, output.write
                )
            sink = output.written(progress)
            return await receiving.receive_all(side, wanted, sink)

    with output_bar("received", wanted.count) as progress:
        received = asyncio.run(work(progress))
    if not received and not flags["is_json"]:
        complain(f"No message of '{wanted.entity}' came within {max_wait}.")


def _check_settlement(settle: str, *, is_following: bool, has_reason: bool) -> None:
    """Raises Failure."""
    from twinbus.cli.messages.receiving import ABANDON, DEAD_LETTER, SETTLEMENTS

    if settle not in SETTLEMENTS:
        raise Failure(
            f"--settle is '{settle}'; there are {', '.join(SETTLEMENTS)}.",
            exit_codes.USAGE,
        )
    if is_following and settle == ABANDON:
        raise Failure(
            "With --follow, messages can't be abandoned: they would come again and "
            "again. 'twinbus peek' looks at messages and changes nothing.",
            exit_codes.USAGE,
        )
    if has_reason and settle != DEAD_LETTER:
        raise Failure(
            "--reason and --description are of --settle dead-letter: give that, too.",
            exit_codes.USAGE,
        )


def _check_combination(*pairs: tuple[str, object, str, object]) -> None:
    """Two flags that say different things. Raises Failure."""
    for one, is_one, other, is_other in pairs:
        if is_one and is_other:
            raise Failure(f"Give {one} or {other}, not both.", exit_codes.USAGE)
