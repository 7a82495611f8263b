"""`twinbus dead-letters`: list, resubmit and remove dead letters.

They are those of a queue or subscription, or of all backlog queues of a primary
(`--backlog`), which the vendor's SDK finds. A twinbus resubmits by itself; elsewhere
the SDK sends copies.
"""

import json
import os
from typing import Annotated, Any, Final

import typer

from twinbus.cli import exit_codes
from twinbus.cli.command_group import examples, group
from twinbus.cli.completion import source_paths
from twinbus.cli.confirming import Yes, make_sure
from twinbus.cli.connection_strings import PRIMARY, SECONDARY, connection_string
from twinbus.cli.dead_letter_choice import Choice
from twinbus.cli.entity_flags import SERVER
from twinbus.cli.failure import Failure
from twinbus.cli.flags import flag, takes
from twinbus.cli.messages.message_flags import Raw
from twinbus.cli.pair_flags import PrimaryName, Secondary, require_sdk

Entity = Annotated[
    str | None,
    typer.Argument(
        metavar="ENTITY",
        help="Path of a queue, or TOPIC/Subscriptions/NAME.",
        show_default=False,
        autocompletion=source_paths,
    ),
]
Limit = Annotated[
    int, typer.Option("--limit", metavar="N", min=1, help="Show at most N.")
]
_Backlog = Annotated[
    bool,
    typer.Option(
        "--backlog", help="All backlog queues of --primary-name on --secondary instead."
    ),
]
_All = Annotated[bool, typer.Option("--all", help="All of them.")]
_Count = Annotated[
    int | None,
    typer.Option("--count", metavar="N", min=1, help="The first N of them."),
]
_Numbers = Annotated[
    list[int] | None,
    typer.Option(
        "--sequence-number", metavar="N", help="Only this one; may be repeated."
    ),
]
_NAMESPACE: Final = (
    flag("is_backlog", _Backlog, default=False),
    flag("primary_name", PrimaryName),
    flag("secondary", Secondary),
    *SERVER,
)
_CHOICE: Final = (
    flag("is_all", _All, default=False),
    flag("count", _Count),
    flag("numbers", _Numbers),
)

_EXAMPLES: Final = (
    "twinbus dead-letters list orders",
    "twinbus dead-letters list --backlog --primary-name site-a --secondary file:site-b",
    "twinbus dead-letters resubmit orders --all",
)

app = group(
    "dead-letters",
    "List, resubmit or remove dead letters.",
    examples(*_EXAMPLES),
)


@app.command(
    "list",
    epilog=examples(
        *_EXAMPLES[:2], "twinbus dead-letters list events/Subscriptions/audit --limit 5"
    ),
)
@takes(*_NAMESPACE)
def _list(
    entity: Entity = None, limit: Limit = 100, has_raw: Raw = False, **flags: Any
) -> None:
    """List dead letters with their reasons, properties and bodies, oldest first."""
    from twinbus.cli.messages.dead_letter_tables import as_json, print_dead_letters
    from twinbus.cli.messages.dead_letters import listed

    is_backlog = flags["is_backlog"]
    found: list[Any] = []

    async def work(side: Any, entity: str) -> None:
        found.extend(await listed(side, entity, limit, has_raw=has_raw))
        if (
            not found
            and not flags["is_json"]
            and (hint := await side.topic_hint(entity))
        ):
            raise Failure(hint, exit_codes.USAGE)

    _for_each(_target(entity, flags), flags, work)
    if flags["is_json"]:
        print(json.dumps([as_json(item) for item in found], indent=2))
    elif found:
        print_dead_letters(found, is_backlog=is_backlog)
    else:
        print("There are no dead letters.")


@app.command(
    "resubmit",
    epilog=examples(
        "twinbus dead-letters resubmit orders --all",
        "twinbus dead-letters resubmit orders --sequence-number 7",
        "twinbus dead-letters resubmit events/Subscriptions/audit --all",
        "twinbus dead-letters resubmit --backlog --primary-name site-a --all",
    ),
)
@takes(*_CHOICE, *_NAMESPACE)
def _resubmit(entity: Entity = None, **flags: Any) -> None:
    """Make dead letters messages of their queue or subscription again.

    A twinbus moves each in one commit: none is lost or doubled, whenever the command is
    killed. Elsewhere a copy is sent first. Those of a backlog queue go back into it,
    and the syphon tries them again.
    """
    _settle("resubmitted", _target(entity, flags), flags)


@app.command(
    "remove",
    epilog=examples(
        "twinbus dead-letters remove orders --sequence-number 7 --yes",
        "twinbus dead-letters remove events/Subscriptions/audit --all --yes",
    ),
)
@takes(*_CHOICE, *_NAMESPACE)
def _remove(entity: Entity = None, is_sure: Yes = False, **flags: Any) -> None:
    """Remove dead letters for good."""
    target = _target(entity, flags)
    _settle("removed", target, flags, is_sure=is_sure)


def _settle(
    verb: str, target: str, flags: dict[str, Any], *, is_sure: bool = True
) -> None:
    """Do with the chosen dead letters what the verb says. Raises Failure."""
    choice = _choice(flags)
    if not is_sure:
        make_sure("remove", f"dead letters of '{target}'")
    from twinbus.cli.messages.dead_letters import removed
    from twinbus.cli.messages.progress import progress_bar

    done = 0
    text = _namespace(flags)
    with progress_bar(verb, choice.count) as progress:

        async def work(side: Any, entity: str) -> None:
            nonlocal done
            so_far = done

            def tell(count: int) -> None:
                progress(so_far + count)

            if verb == "removed":
                done += await removed(side, entity, choice, tell)
            else:
                done += await _resubmitted(text, side, entity, choice, tell)

        _for_each(target, flags, work)
    if not (choice.numbers and not done):
        is_json = flags["is_json"]
        print(json.dumps({verb: done}) if is_json else f"{verb.capitalize()}: {done}.")
    if missing := len(choice.numbers) - done if choice.numbers else 0:
        raise _not_there(target, choice, missing)


def _not_there(target: str, choice: Choice, missing: int) -> Failure:
    """Numbers that were asked for, and that no dead letter has."""
    asked = ", ".join(map(str, sorted(choice.numbers)[:5]))
    text = f"'{target}' has no dead letter with the number {asked}"
    if len(choice.numbers) > 1:
        text = f"'{target}' has no dead letters with {missing} of the numbers given"
    return Failure(
        f"{text}: 'twinbus dead-letters list {target}' shows those that there are.",
        exit_codes.NOT_FOUND,
    )


async def _resubmitted(
    text: str, side: Any, entity: str, choice: Choice, progress: Any
) -> int:
    """By the namespace itself, if it can."""
    from twinbus.cli.messages.dead_letters import RESUBMIT, resubmitted
    from twinbus.cli.messages.namespace_side import told_as_failure

    with told_as_failure(side, entity):
        is_able = await side.offers(RESUBMIT, entity)
    if is_able:
        return await resubmitted(side, entity, choice, progress)
    require_sdk()
    from twinbus.cli.foreign_dead_letters import resubmitted_elsewhere

    return await resubmitted_elsewhere(text, entity, choice, progress)


def _for_each(target: str, flags: dict[str, Any], work: Any) -> None:
    """Call `work` with the entity, or with each backlog queue. Raises Failure."""
    import asyncio

    from twinbus.cli.messages.namespace_side import opened_side

    text, is_backlog = _namespace(flags), flags["is_backlog"]
    if is_backlog:
        require_sdk()

    async def each() -> None:
        entities = [target.strip("/")]
        if is_backlog:
            from twinbus.cli.foreign_dead_letters import backlog_entities

            entities = await backlog_entities(text, target)
        async with opened_side(text) as side:
            for entity in entities:
                await work(side, entity)

    asyncio.run(each())


def _target(entity: str | None, flags: dict[str, Any]) -> str:
    """The path of the entity, or the name of the primary. Raises Failure."""
    if flags["is_backlog"] == (entity is not None):
        raise Failure("Give the path of an entity, or --backlog.", exit_codes.USAGE)
    if entity is not None:
        return entity
    from twinbus.cli.pair_questions import backlog_name

    name = flags["primary_name"]
    other = None
    if name is None and PRIMARY in os.environ:
        other = connection_string(None, "--primary", PRIMARY, os.environ)
    return backlog_name(other, name)


def _namespace(flags: dict[str, Any]) -> str:
    """The connection string of the namespace. Raises Failure."""
    if flags["is_backlog"]:
        secondary = flags["secondary"]
        return connection_string(secondary, "--secondary", SECONDARY, os.environ)
    from twinbus.cli.server_choice import chosen_connection_string

    return chosen_connection_string(flags)


def _choice(flags: dict[str, Any]) -> Choice:
    """Which dead letters the flags choose. Raises Failure."""
    is_all, count, numbers = flags["is_all"], flags["count"], flags["numbers"]
    if sum((is_all, count is not None, bool(numbers))) != 1:
        text = "Say which: --all, --count N, or --sequence-number N."
        raise Failure(text, exit_codes.USAGE)
    if flags["is_backlog"] and not is_all:
        raise Failure(
            "With --backlog, only --all is possible. For some of them, give the path "
            "of a backlog queue and the connection string of the secondary.",
            exit_codes.USAGE,
        )
    return Choice(numbers=frozenset(numbers or ()), count=count)
