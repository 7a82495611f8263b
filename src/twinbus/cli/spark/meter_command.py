"""`twinbus spark meter`: billed operations, and what a pair costs."""

from typing import Annotated, Any, Final

import typer

from twinbus.cli import exit_codes
from twinbus.cli.command_group import examples
from twinbus.cli.entity_flags import Json
from twinbus.cli.failure import Failure
from twinbus.cli.operation_log.log_flags import (
    DamagedIsGap,
    LogFolders,
    Namespaces,
    Output,
)
from twinbus.cli.spark.spark_flags import Conf, Master

EPILOG: Final = examples(
    "twinbus spark meter oplog-a oplog-b",
    "twinbus spark meter oplog-a oplog-b --book service --output meter --csv",
    "twinbus spark meter oplog-a oplog-b --what-if backlog_queue_count=5",
    "twinbus spark meter oplog-a --book ./our-prices.toml --json",
)

_PAIR_SETTINGS: Final = {
    "backlog_queue_count": int,
    "syphon_hosts": int,
    "ping_interval": float,
    "failover_interval": float,
}
_FIELDS: Final = {
    "ping_interval": "ping_interval_seconds",
    "failover_interval": "failover_interval_seconds",
}

_MOST: Final = 1_000_000
"""Of queues, of hosts and of seconds: what is more is a slip."""

_Books = Annotated[
    list[str] | None,
    typer.Option(
        "--book",
        metavar="NAME",
        help="A price book: documents, service, or a TOML file; may be repeated. "
        "Default: both.",
    ),
]
_Csv = Annotated[bool, typer.Option("--csv", help="Write the table as CSV, too.")]
_Pair = Annotated[
    list[str] | None,
    typer.Option(
        "--pair",
        metavar="SETTING=VALUE",
        help="How the pair is set up, if not by default: backlog_queue_count, "
        "syphon_hosts, ping_interval or failover_interval (seconds); may be repeated.",
    ),
]
_WhatIf = Annotated[
    list[str] | None,
    typer.Option(
        "--what-if",
        metavar="SETTING=VALUE",
        help="The same settings, as they might be: what would it have cost? "
        "May be repeated.",
    ),
]


def meter(
    folders: LogFolders,
    books: _Books = None,
    output: Output = None,
    has_csv: _Csv = False,
    pair: _Pair = None,
    what_if: _WhatIf = None,
    namespaces: Namespaces = None,
    damaged_is_gap: DamagedIsGap = False,
    master: Master = "local[*]",
    conf: Conf = None,
    is_json: Json = False,
) -> None:
    """Count billed operations by hour, entity, kind and key, and price them.

    Also shows what a pair of namespaces costs, the requests of its syphon included, and
    would cost with other settings. Hours over a gap, or not over yet, are marked: their
    bills may be higher. Ends with 5 if a log is damaged or of another format; then
    nothing is written.
    """
    from twinbus.cli.spark.environment import require_spark

    now = _settings("--pair", pair)
    then = _settings("--what-if", what_if)
    if has_csv and output is None:
        raise Failure("--csv needs --output.", exit_codes.USAGE)
    require_spark()
    from twinbus.cli.spark.meter_run import meter_logs
    from twinbus.spark.jobs.meter import MeterOptions
    from twinbus.spark.jobs.meter.pair_costs import CostSettings
    from twinbus.spark.jobs.meter.price_book import BUILT_IN

    options = MeterOptions(
        logs=tuple(folders),
        books=tuple(books or BUILT_IN),
        output=output,
        has_csv=has_csv,
        namespaces=tuple(namespaces or ()),
        pair=CostSettings(**now),
        what_if=CostSettings(**{**now, **then}) if then else None,
        damaged_is_gap=damaged_is_gap,
    )
    meter_logs(options, master, conf or (), is_json=is_json)


def _settings(flag: str, given: list[str] | None) -> dict[str, Any]:
    """The settings of a pair that a flag has. Raises Failure."""
    found: dict[str, Any] = {}
    for item in given or ():
        name, _, text = item.partition("=")
        kind = _PAIR_SETTINGS.get(name.strip())
        try:
            value = kind(text) if kind is not None else 0
        except ValueError:
            value = 0
        if not 0 < value <= _MOST:
            raise Failure(
                f"{flag} is '{item[:60]}'; it must be SETTING=VALUE, with a value "
                f"above 0 and one of: {', '.join(_PAIR_SETTINGS)}.",
                exit_codes.USAGE,
            )
        found[_FIELDS.get(name.strip(), name.strip())] = value
    return found
