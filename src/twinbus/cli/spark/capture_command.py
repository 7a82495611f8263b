"""`twinbus spark capture`: messages of entities into a lake."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

import typer

from twinbus.cli.command_group import examples
from twinbus.cli.entity_flags import Json
from twinbus.cli.server_address import CONNECTION_STRING_VARIABLE
from twinbus.cli.spark.spark_flags import BusOf, Conf, LakeOf, Master, Timeout

if TYPE_CHECKING:
    from twinbus.spark.jobs.capture import CaptureOptions, CaptureSummary

_Entities = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="ENTITY...",
        help="Queues, topics, TOPIC/subscriptions/NAME and PATH/$deadletterqueue.",
    ),
]
_Pattern = Annotated[
    str | None,
    typer.Option(
        metavar="PATTERN",
        help="Also all queues and subscriptions that match, such as 'orders*'; new "
        "ones are found.",
    ),
]
_Consume = Annotated[
    bool,
    typer.Option(
        "--consume",
        help="Take messages of queues and subscriptions away when they are captured. "
        "While a batch is captured, nobody else gets messages of them.",
    ),
]
_Subscription = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="The subscription that is made for each topic. It belongs to the lake.",
    ),
]
_Format = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="Of the messages: parquet, or delta if this Spark has it. A lake keeps "
        "its format.",
    ),
]
_Continuous = Annotated[
    bool, typer.Option("--continuous", help="Go on until it is told to stop.")
]
_Window = Annotated[
    str,
    typer.Option(
        metavar="DURATION",
        help="With --continuous: after this time, what has come is captured.",
    ),
]
_MaxMessages = Annotated[
    int,
    typer.Option(metavar="NUMBER", min=1, max=1_000_000, help="Messages of one batch."),
]
_MaxBytes = Annotated[
    str, typer.Option(metavar="SIZE", help="Bytes of one batch, such as 256m.")
]
_CompactFiles = Annotated[
    int,
    typer.Option(
        metavar="NUMBER",
        min=0,
        help="An hour that is over and has so many files of Parquet is written again "
        "as one; 0: never.",
    ),
]
_AcceptLoss = Annotated[
    bool,
    typer.Option(
        "--accept-loss",
        help="Go on if messages are gone that were to be captured: a subscription or "
        "queue was deleted.",
    ),
]


EPILOG: Final = examples(
    "twinbus spark capture orders billing --lake lake",
    "twinbus spark capture billing --lake lake --continuous --window 5m",
    "twinbus spark capture --pattern 'orders*' --lake s3a://bucket/lake --json",
    "twinbus spark capture orders --consume --lake lake --master spark://host:7077",
)


def capture(
    lake: LakeOf,
    entities: _Entities = None,
    connection_string: BusOf = None,
    pattern: _Pattern = None,
    consumes: _Consume = False,
    subscription: _Subscription = "twinbus-capture",
    data_format: _Format = "parquet",
    is_continuous: _Continuous = False,
    window: _Window = "5m",
    max_messages: _MaxMessages = 250_000,
    max_bytes: _MaxBytes = "256m",
    compact_files: _CompactFiles = 8,
    accepts_loss: _AcceptLoss = False,
    master: Master = "local[*]",
    timeout: Timeout = "5m",
    conf: Conf = None,
    is_json: Json = False,
) -> None:
    """Capture messages into a lake: files by entity, date and hour, with a manifest.

    Queues and subscriptions are browsed: their messages stay. A topic is captured
    through a subscription of its own, which this command makes; that needs the Manage
    right, everything else the Listen right. Run it again to capture what is new: no
    message is captured twice, also if a run was killed. 'twinbus spark replay' sends
    messages of a lake again.
    """
    from twinbus.cli.spark.environment import reference, require_spark

    credential = reference(
        connection_string, "--connection-string", CONNECTION_STRING_VARIABLE
    )
    require_spark()
    from twinbus.cli.spark.lake_values import milliseconds, size
    from twinbus.spark.jobs.capture import CaptureOptions

    options = CaptureOptions(
        credential=credential,
        lake=lake,
        entities=tuple(entities or ()),
        pattern=pattern,
        consumes=consumes,
        subscription=subscription,
        data_format=data_format,
        is_continuous=is_continuous,
        window_ms=milliseconds("window", window, 1_000),
        max_messages=max_messages,
        max_bytes=size("max-bytes", max_bytes),
        compact_files=compact_files,
        accepts_loss=accepts_loss,
        timeout_ms=milliseconds("timeout", timeout, 1_000),
    )
    _run(options, master, conf or [], is_json=is_json)


def _run(
    options: "CaptureOptions", master: str, conf: list[str], *, is_json: bool
) -> None:
    from twinbus.cli.spark.job_run import run_job, run_until_told
    from twinbus.cli.spark.lake_values import print_json
    from twinbus.cli.syphon_run import log_to_stderr
    from twinbus.spark.jobs.capture import CaptureRun

    log_to_stderr()
    summary = run_job(
        f"capture into {options.lake}",
        master,
        conf,
        lambda spark, show: run_until_told(
            CaptureRun(
                spark,
                options,
                lambda summary: show(_shown(summary), summary.messages, None),
            )
        ),
        is_json=is_json,
    )
    if is_json:
        print_json({**asdict(summary), "rate": round(summary.rate, 1)})
        return
    print(f"{_shown(summary)}, in {summary.seconds:.1f} s ({summary.rate:.0f}/s).")
    for entity, count in summary.entities.items():
        print(f"{entity}: {count}")


def _shown(summary: "CaptureSummary") -> str:
    compacted = f", {summary.compacted_hours} hours compacted"
    # A table keeps its files to itself.
    files = f", {summary.files} files"
    known = f", {summary.known} known already"
    return (
        f"{summary.messages} messages captured in {summary.batches} batches"
        f"{files if summary.files else ''}"
        f"{known if summary.known else ''}"
        f"{compacted if summary.compacted_hours else ''}"
    )
