"""`twinbus trace`: its flags. What it does is in `tracing/`."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from twinbus.cli import exit_codes
from twinbus.cli.bus_flags import FILES
from twinbus.cli.command_group import examples
from twinbus.cli.entity_flags import Json
from twinbus.cli.failure import Failure
from twinbus.cli.flags import takes
from twinbus.cli.tracing.message_trace import TracedLog

EXAMPLES: Final = examples(
    "twinbus trace tea-1",
    "twinbus trace tea-1 --log operations",
    "twinbus trace tea-1 --log site-a/operations --log site-b/operations --json",
)


@takes(*FILES)
def trace(
    message_id: Annotated[
        str,
        typer.Argument(metavar="MESSAGE-ID", help="Id of the message, or its uid."),
    ],
    folders: Annotated[
        list[Path] | None,
        typer.Option(
            "--log",
            metavar="FOLDER",
            help="A folder with an exported operation log; may be repeated: of both "
            "sites of a pair, and of its senders. Default: what the stores have.",
        ),
    ] = None,
    is_json: Json = False,
    **flags: Any,
) -> None:
    """Tell everything that happened to a message.

    It is followed through dead letters, forwarding, topics, stores and both sites of a
    pair. Messages with the same id are all shown. The stores have the latest
    operations, and the bus may run; exported logs go further back, and need pyarrow.
    """
    from twinbus.cli.messages.progress import shown_bar
    from twinbus.cli.tracing.message_trace import traced
    from twinbus.cli.tracing.trace_view import print_trace

    with shown_bar("commits searched:", None) as progress:
        found = traced(message_id, _logs(folders or [], flags, progress))
    if is_json:
        print(json.dumps(asdict(found), indent=2))
    elif found.events:
        print_trace(found)
    if not found.events:
        raise Failure(
            f"No operation on a message '{message_id}' is in the log. "
            + (
                "What happened in the last seconds may not be exported yet."
                if folders
                else "Older ones are in an exported log, if there is one: see --log."
            ),
            exit_codes.NOT_FOUND,
        )


def _logs(
    folders: list[Path], flags: dict[str, Any], progress: Callable[[int], None]
) -> Sequence[TracedLog]:
    if folders:
        from twinbus.cli.tracing.exported_log import ExportedLog

        return [ExportedLog(folder) for folder in folders]
    from twinbus.cli.operation_log.sources import log_sources
    from twinbus.cli.settings import settings
    from twinbus.cli.tracing.stored_log import StoredLog

    config = settings(**flags)
    done = 0

    def seen(count: int) -> None:
        nonlocal done
        done += count
        progress(done)

    return [StoredLog(source, config.namespace, seen) for source in log_sources(config)]
