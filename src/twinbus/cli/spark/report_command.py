"""`twinbus spark report`: what a bus did, as a page with plots, and as tables."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from twinbus.cli import exit_codes
from twinbus.cli.command_group import examples
from twinbus.cli.entity_flags import Json
from twinbus.cli.failure import Failure
from twinbus.cli.operation_log.log_flags import DamagedIsGap, LogFolders
from twinbus.cli.spark.spark_flags import Conf, Master

_Out = Annotated[
    Path,
    typer.Option(metavar="FOLDER", help="Where report.html, plots and tables go."),
]
_Since = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="First hour, such as 2026-11-01T10 (UTC). Default: all that is there.",
    ),
]
_Until = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="The hour that is not looked at any more."),
]
_Title = Annotated[str, typer.Option(metavar="TEXT", help="Heading of the page.")]
_Books = Annotated[
    list[str] | None,
    typer.Option(
        "--book",
        metavar="NAME",
        help="A price book: documents, service, or a file; may be repeated. Default: "
        "both.",
    ),
]
EPILOG: Final = examples(
    "twinbus spark report oplog --out report",
    "twinbus spark report site-a site-b senders --out report --json",
    "twinbus spark report oplog --out report --since 2026-11-01T10",
    "twinbus spark report oplog --out report --master spark://host:7077",
)


def report(
    folders: LogFolders,
    out: _Out = Path("report"),
    since: _Since = None,
    until: _Until = None,
    title: _Title = "Operations",
    books: _Books = None,
    damaged_is_gap: DamagedIsGap = False,
    master: Master = "local[*]",
    conf: Conf = None,
    is_json: Json = False,
) -> None:
    """Make a report of operation logs: latencies, outages, dead letters and more.

    It writes one HTML file that needs nothing else, its plots as PNG, and all tables
    as CSV and Parquet. The same logs give the same report. Logs that came late change
    the hours that they are of, when the report is made again. Ends with 5 if a log is
    damaged or of another format; then nothing is written.
    """
    from twinbus.cli.spark.environment import require_spark

    first, last = _hour("--since", since), _hour("--until", until)
    if first is not None and last is not None and first >= last:
        raise Failure("--until must be after --since.", exit_codes.USAGE)
    require_spark()
    from twinbus.cli.spark.report_run import make_report, require_matplotlib
    from twinbus.spark.jobs.meter.price_book import BUILT_IN
    from twinbus.spark.jobs.report import ReportOptions

    require_matplotlib()
    options = ReportOptions(
        folders=tuple(folders),
        out=out,
        since=first,
        until=last,
        title=title,
        books=tuple(books) if books else BUILT_IN,
        damaged_is_gap=damaged_is_gap,
    )
    make_report(options, master, conf or (), is_json=is_json)


def _hour(flag: str, text: str | None) -> datetime | None:
    """The begin of the hour that a text is in. Raises Failure."""
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise Failure(
            f"{flag} is '{text[:60]}'; it must be a time such as 2026-11-01T10.",
            exit_codes.USAGE,
        ) from None
    known = at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    return known.replace(minute=0, second=0, microsecond=0)
