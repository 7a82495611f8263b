"""`twinbus spark replay`: messages of a lake are sent again."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

import typer

from twinbus.cli import exit_codes
from twinbus.cli.command_group import examples
from twinbus.cli.entity_flags import Json
from twinbus.cli.failure import Failure
from twinbus.cli.server_address import CONNECTION_STRING_VARIABLE
from twinbus.cli.spark.spark_flags import BusOf, Conf, LakeOf, Master, Timeout

if TYPE_CHECKING:
    from twinbus.spark.jobs.replay import ReplayOptions, ReplaySummary

_ReplayId = Annotated[
    str,
    typer.Option(
        "--replay-id",
        metavar="ID",
        help="A name for this replay. With the same id, a message is sent once, "
        "however often the command is run; a new id sends again.",
    ),
]
_Entities = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="ENTITY...", help="Entities of the lake. Default: all that it has."
    ),
]
_From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="TIME",
        help="Only messages that were enqueued at this time or later: ISO 8601, in "
        "UTC if it has no zone.",
    ),
]
_Until = Annotated[
    str | None,
    typer.Option(
        "--until", metavar="TIME", help="Only messages that were enqueued before."
    ),
]
_FromSequence = Annotated[
    int | None,
    typer.Option(metavar="NUMBER", min=0, help="The first sequence number."),
]
_ToSequence = Annotated[
    int | None, typer.Option(metavar="NUMBER", min=0, help="The last one.")
]
_Where = Annotated[
    str | None,
    typer.Option(
        metavar="SQL",
        help="Only messages for which this condition of Spark's SQL is true, such as "
        "\"application_properties['colour'] = 'red'\".",
    ),
]
_To = Annotated[
    list[str] | None,
    typer.Option(
        "--to",
        metavar="TARGET",
        help="The queue or topic that they are sent to; or ENTITY=TARGET for the "
        "messages of one entity, which may be repeated. Default: where they came "
        "from; dead letters go to their queue, those of a subscription to its topic.",
    ),
]
_Life = Annotated[
    str,
    typer.Option(
        "--ttl",
        metavar="HOW",
        help="keep: the time to live begins again; remaining: a message expires when "
        "it would have, and is not sent after that; reset: the entity's own.",
    ),
]
_Schedule = Annotated[
    str,
    typer.Option(
        metavar="HOW",
        help="keep: a scheduled time stays, also if it is over; reset: it is removed.",
    ),
]
_Rate = Annotated[
    float | None, typer.Option(metavar="NUMBER", help="Messages a second, at most.")
]
_DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Check and count everything, send nothing.")
]
_OtherNamespace = Annotated[
    bool,
    typer.Option(
        "--other-namespace", help="Send to another namespace than that of the lake."
    ),
]


EPILOG: Final = examples(
    "twinbus spark replay orders --lake lake --replay-id incident-7 --dry-run",
    "twinbus spark replay orders --lake lake --replay-id incident-7 "
    "--from 2026-11-17T08:00 --until 2026-11-17T09:00",
    "twinbus spark replay --lake lake --replay-id test --to orders=copies --rate 50",
)


def replay(
    lake: LakeOf,
    replay_id: _ReplayId,
    entities: _Entities = None,
    connection_string: BusOf = None,
    start: _From = None,
    end: _Until = None,
    from_sequence: _FromSequence = None,
    to_sequence: _ToSequence = None,
    where: _Where = None,
    to: _To = None,
    life: _Life = "keep",
    schedule: _Schedule = "keep",
    rate: _Rate = None,
    is_dry_run: _DryRun = False,
    is_other_namespace: _OtherNamespace = False,
    master: Master = "local[*]",
    timeout: Timeout = "5m",
    conf: Conf = None,
    is_json: Json = False,
) -> None:
    """Send captured messages again, byte by byte as they were.

    All that is selected is checked before the first message is sent: that no file of
    the lake is missing, torn or changed, and that each target takes messages. Ends with
    12 if the lake is damaged. Needs the Send right, best on the whole namespace: then
    the replay id is remembered for ever, otherwise for 'send_id_window', a day.
    """
    from twinbus.cli.spark.environment import reference, require_spark

    credential = reference(
        connection_string, "--connection-string", CONNECTION_STRING_VARIABLE
    )
    target, targets = _targets(to or [])
    _choice("--ttl", life, ("keep", "remaining", "reset"))
    _choice("--schedule", schedule, ("keep", "reset"))
    require_spark()
    from twinbus.cli.spark.lake_values import instant, milliseconds
    from twinbus.spark.jobs.replay import ReplayedLife, ReplayOptions

    options = ReplayOptions(
        credential=credential,
        lake=lake,
        replay_id=replay_id,
        entities=tuple(entities or ()),
        start_at=instant("from", start),
        end_at=instant("until", end),
        from_sequence=from_sequence,
        to_sequence=to_sequence,
        where=where,
        target=target,
        targets=targets,
        life=ReplayedLife(life),
        keeps_schedule=schedule == "keep",
        rate=rate,
        is_dry_run=is_dry_run,
        allows_other_namespace=is_other_namespace,
        timeout_ms=milliseconds("timeout", timeout, 1_000),
    )
    _run(options, master, conf or [], is_json=is_json)


def _targets(given: list[str]) -> tuple[str | None, dict[str, str]]:
    """One for all, or by entity. Raises Failure."""
    named = dict(text.split("=", 1) for text in given if "=" in text)
    plain = [text for text in given if "=" not in text]
    if len(plain) > 1 or (plain and named):
        raise Failure(
            "--to must be one TARGET, or ENTITY=TARGET for each entity.",
            exit_codes.USAGE,
        )
    return (plain[0] if plain else None), named


def _choice(flag: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise Failure(
            f"{flag} is '{value}'; it must be one of {', '.join(choices)}.",
            exit_codes.USAGE,
        )


def _run(
    options: "ReplayOptions", master: str, conf: list[str], *, is_json: bool
) -> None:
    from twinbus.cli.spark.job_run import run_job, run_until_told
    from twinbus.cli.spark.lake_values import print_json
    from twinbus.cli.syphon_run import log_to_stderr
    from twinbus.spark.jobs.replay import ReplayRun

    log_to_stderr()
    summary = run_job(
        f"replay of {options.lake}",
        master,
        conf,
        lambda spark, show: run_until_told(
            ReplayRun(
                spark,
                options,
                lambda summary: show(
                    "replaying",
                    summary.sent + summary.known + summary.expired,
                    summary.selected or None,
                ),
            )
        ),
        is_json=is_json,
    )
    if is_json:
        print_json({**asdict(summary), "rate": round(summary.rate, 1)})
    else:
        _print(summary)


def _print(summary: "ReplaySummary") -> None:
    from twinbus.cli.spark.lake_values import shown_time

    for flow in summary.flows:
        began, ended = flow.first_enqueued_at, flow.last_enqueued_at
        print(
            f"{flow.entity} -> {flow.target}: {flow.messages} messages, {flow.bytes} "
            f"bytes, {flow.first} to {flow.last}, enqueued {shown_time(began)} to "
            f"{shown_time(ended)}"
        )
    if summary.is_dry_run:
        print(f"{summary.selected} messages would be sent. Nothing was sent.")
        return
    expired = f", {summary.expired} expired and not sent"
    print(
        f"{summary.sent} messages sent, {summary.known} known already"
        f"{expired if summary.expired else ''}, in {summary.seconds:.1f} s "
        f"({summary.rate:.0f}/s)."
    )
