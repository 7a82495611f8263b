"""`twinbus pair`: how a pair is, and removing what it no longer needs.

They look at the two namespaces from outside, with the vendor's SDK, so either may be of
any kind. What a running application thinks of its pair is in its own metrics.
"""

import json
import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from twinbus.cli import exit_codes
from twinbus.cli.command_group import examples, group
from twinbus.cli.connection_strings import PRIMARY, SECONDARY, connection_string
from twinbus.cli.entity_flags import Json
from twinbus.cli.failure import Failure
from twinbus.cli.pair_flags import Primary, PrimaryName, Secondary, Yes, require_sdk

if TYPE_CHECKING:
    from twinbus.pairing.backlog_status import BacklogSurvey

app = group(
    "pair",
    "Look at paired namespaces, and clean up after them.",
    examples(
        "twinbus pair status --primary file:site-a --secondary file:site-b",
        "twinbus pair clean --secondary file:site-b --primary-name site-a --dry-run",
    ),
)


@app.command(
    "status",
    epilog=examples(
        "twinbus pair status --primary file:site-a --secondary file:site-b",
        "TWINBUS_PRIMARY=file:a TWINBUS_SECONDARY=file:b twinbus pair status --json",
    ),
)
def _status(
    primary: Primary = None,
    secondary: Secondary = None,
    primary_name: PrimaryName = None,
    is_json: Json = False,
) -> None:
    """Show whether both sides answer, and what waits in the backlog.

    Ends with 0 if both answer and nothing waits, with 7 if one does not answer, with 11
    if messages wait or are dead letters.
    """
    sides = (
        connection_string(primary, "--primary", PRIMARY, os.environ),
        connection_string(secondary, "--secondary", SECONDARY, os.environ),
    )
    require_sdk()
    import asyncio

    from twinbus.cli.pair_questions import pair_report
    from twinbus.cli.pair_report import as_json, print_report

    report = asyncio.run(pair_report(*sides, primary_name))
    if is_json:
        print(json.dumps(as_json(report), indent=2))
    else:
        print_report(report)
    raise typer.Exit(report.exit_code)


@app.command(
    "clean",
    epilog=examples(
        "twinbus pair clean --secondary file:site-b --primary-name site-a --dry-run",
        "twinbus pair clean --secondary file:site-b --primary-name site-a --yes",
    ),
)
def _clean(
    secondary: Secondary = None,
    primary: Primary = None,
    primary_name: PrimaryName = None,
    is_dry: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be removed.")
    ] = False,
    is_sure: Yes = False,
    is_json: Json = False,
) -> None:
    """Remove backlog queues that have neither messages nor dead letters.

    For a primary that is no longer paired: applications that are running do not make
    their queues anew. No message is lost, even if one is sent just then.
    """
    text = connection_string(secondary, "--secondary", SECONDARY, os.environ)
    other = None
    if primary_name is None and (primary or PRIMARY in os.environ):
        other = connection_string(primary, "--primary", PRIMARY, os.environ)
    require_sdk()
    import asyncio

    from twinbus.cli.pair_questions import backlog_name, backlog_of, remove_unused

    survey = asyncio.run(backlog_of(text, backlog_name(other, primary_name)))
    unused = [queue.path for queue in survey.queues if queue.is_unused]
    kept = [queue.path for queue in survey.queues if not queue.is_unused]
    removed: list[str] = []
    if unused and not is_dry:
        if not is_sure:
            _make_sure(unused)
        removed = asyncio.run(remove_unused(text, unused))
        kept += [path for path in unused if path not in removed]
    if is_json:
        answer = {"unused": unused, "removed": removed, "kept": kept}
        print(json.dumps(answer, indent=2))
    else:
        _print_cleaned(survey, unused if is_dry else removed, kept, is_dry=is_dry)


def _make_sure(paths: list[str]) -> None:
    """Queues do not come back; a script has to say that it means it."""
    if not sys.stdin.isatty():
        raise Failure(
            f"Nobody can be asked whether to remove {len(paths)} backlog queues "
            f"({paths[0]} and so on): give --yes.",
            exit_codes.USAGE,
        )
    for path in paths:
        print(path, file=sys.stderr)
    typer.confirm(f"Remove these {len(paths)} backlog queues?", abort=True, err=True)


def _print_cleaned(
    survey: "BacklogSurvey", unused: list[str], kept: list[str], *, is_dry: bool
) -> None:
    for path in kept:
        print(f"in use   {path}")
    for path in unused:
        print(f"{'unused ' if is_dry else 'removed'}  {path}")
    if not survey.queues:
        print(survey.missing)
    elif not unused:
        print("There is no unused backlog queue.")
