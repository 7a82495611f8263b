"""`twinbus spark`: jobs that Spark runs."""

from pathlib import Path
from typing import Annotated, Final

import typer

from twinbus.cli import exit_codes
from twinbus.cli.command_group import examples, group
from twinbus.cli.connection_strings import PRIMARY, SECONDARY
from twinbus.cli.entity_flags import Json
from twinbus.cli.failure import Failure
from twinbus.cli.pair_flags import (
    CountsBacklog,
    Cover,
    Primary,
    PrimaryName,
)
from twinbus.cli.spark import (
    audit_command,
    capture_command,
    meter_command,
    replay_command,
    report_command,
)
from twinbus.cli.spark.spark_flags import (
    Checkpoint,
    Conf,
    Continuous,
    ListenedSecondary,
    Master,
    MaxMessagesPerBatch,
    MissingEntityGrace,
    SecondaryName,
    Timeout,
)

app = group(
    "spark",
    "Run jobs in Spark, and package them for a cluster.",
    examples(
        "twinbus spark syphon --primary file:site-a --secondary file:site-b",
        "twinbus spark capture orders billing --lake lake",
        "twinbus spark replay orders --lake lake --replay-id again --dry-run",
        "twinbus spark meter oplog-a oplog-b --what-if backlog_queue_count=5",
        "twinbus spark audit oplog-a oplog-b sendlog",
        "twinbus spark report oplog-a oplog-b sendlog --out report",
        "twinbus spark package twinbus-spark.zip",
    ),
)
app.command("capture", epilog=capture_command.EPILOG)(capture_command.capture)
app.command("replay", epilog=replay_command.EPILOG)(replay_command.replay)
app.command("meter", epilog=meter_command.EPILOG)(meter_command.meter)
app.command("audit", epilog=audit_command.EPILOG)(audit_command.audit)
app.command("report", epilog=report_command.EPILOG)(report_command.report)

_MAX_MESSAGES: Final = 50_000


@app.command(
    "syphon",
    epilog=examples(
        "twinbus spark syphon --primary file:site-a --secondary file:site-b",
        "twinbus spark syphon --primary-name site-a --continuous --checkpoint state",
        "twinbus spark syphon --master spark://host:7077 --json",
    ),
)
def _syphon(
    primary: Primary = None,
    secondary: ListenedSecondary = None,
    primary_name: PrimaryName = None,
    secondary_name: SecondaryName = None,
    cover: Cover = None,
    is_continuous: Continuous = False,
    counts_backlog: CountsBacklog = False,
    missing_entity_grace: MissingEntityGrace = "0s",
    master: Master = "local[*]",
    checkpoint: Checkpoint = None,
    max_messages_per_batch: MaxMessagesPerBatch = _MAX_MESSAGES,
    timeout: Timeout = "60s",
    conf: Conf = None,
    is_json: Json = False,
) -> None:
    """Bring messages from the backlog queues back to the primary, by Spark.

    For large backlogs: it uses all cores, or a cluster, and keeps the order within each
    session. Other syphons may run at the same time. Ends with 0 when the backlog is
    empty, with 7 if a side does not answer, with 11 if messages had to stay or became
    dead letters. With --continuous it runs until it is told to stop (SIGTERM, or
    Ctrl-C), through outages of either side.
    """
    from twinbus.cli.spark.environment import reference, require_spark

    sides = (
        reference(primary, "--primary", PRIMARY),
        reference(secondary, "--secondary", SECONDARY),
    )
    require_spark()
    from twinbus.cli.spark.syphon_run import SparkSyphonRun, syphon_options

    options = syphon_options(
        sides,
        primary_name=primary_name,
        secondary_name=secondary_name,
        cover=tuple(cover or ()),
        counts_backlog=counts_backlog,
        missing_entity_grace=missing_entity_grace,
        checkpoint=checkpoint,
        is_continuous=is_continuous,
        max_messages=max_messages_per_batch,
        timeout=timeout,
    )
    run = SparkSyphonRun(options, master, conf or (), is_json=is_json)
    raise typer.Exit(run.main())


@app.command("package", epilog=examples("twinbus spark package twinbus-spark.zip"))
def _package(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What to write.")],
) -> None:
    """Write an archive of what executors need, for spark-submit --py-files.

    It is not needed with --master, which sends it along, nor if twinbus is installed on
    all hosts of the cluster. The hosts need pyarrow in any case.
    """
    from twinbus.spark.packaging import write_archive

    try:
        write_archive(file)
    except OSError as error:
        raise Failure(f"{file}: {error.strerror}.", exit_codes.FAILED) from None
