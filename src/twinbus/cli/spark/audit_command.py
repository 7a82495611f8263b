"""`twinbus spark audit`: was anything lost, doubled or misrouted?"""

from typing import Annotated, Final

import typer

from twinbus.cli.command_group import examples
from twinbus.cli.entity_flags import Json
from twinbus.cli.operation_log.log_flags import (
    DamagedIsGap,
    LogFolders,
    Namespaces,
    Output,
)
from twinbus.cli.spark.spark_flags import Conf, Master

EPILOG: Final = examples(
    "twinbus spark audit oplog-a oplog-b sendlog",
    "twinbus spark audit oplog-a oplog-b sendlog --output audit --json",
    "twinbus spark audit oplog-a --lake lake",
    "twinbus spark audit oplog-a --namespace site-a --master spark://host:7077",
)

_Tolerance = Annotated[
    int,
    typer.Option(
        "--tolerance",
        metavar="SECONDS",
        min=0,
        max=86_400,
        help="What happened this close to the end of the logs is not judged.",
    ),
]
_Lakes = Annotated[
    list[str] | None,
    typer.Option(
        "--lake",
        metavar="FOLDER",
        help="A lake of one of the namespaces, by 'twinbus spark capture': a folder "
        "that all hosts of Spark share, or a URL; may be repeated. What captures took "
        "out of the bus must be in there.",
    ),
]
_PrimaryNamespace = Annotated[
    str | None,
    typer.Option(
        "--primary",
        metavar="NAME",
        help="The namespace that paired senders send to, if their logs call it by "
        "another name. Default: the one without backlog queues.",
    ),
]


def audit(
    folders: LogFolders,
    lakes: _Lakes = None,
    output: Output = None,
    namespaces: Namespaces = None,
    primary: _PrimaryNamespace = None,
    tolerance: _Tolerance = 60,
    damaged_is_gap: DamagedIsGap = False,
    master: Master = "local[*]",
    conf: Conf = None,
    is_json: Json = False,
) -> None:
    """Find messages that were lost, doubled or brought to a wrong entity.

    Compares what paired senders, the primary and the secondary noted, and shows the
    timeline of each message that something is wrong with. Ends with 0 if nothing is,
    with 14 if there are such messages, and with 15 if that is not known because a part
    of a log is missing. With 5 if a log is damaged or of another format, with 12 if a
    lake is damaged; then nothing is written.

    With --lake also: a message that a capture took out of the bus and that is not in
    its lake is lost.
    """
    from twinbus.cli.spark.environment import require_spark

    require_spark()
    from twinbus.cli.spark.audit_run import audit_logs
    from twinbus.spark.jobs.audit import AuditOptions

    options = AuditOptions(
        logs=tuple(folders),
        lakes=tuple(lakes or ()),
        output=output,
        namespaces=tuple(namespaces or ()),
        primary=primary,
        tolerance_seconds=tolerance,
        damaged_is_gap=damaged_is_gap,
    )
    raise typer.Exit(audit_logs(options, master, conf or (), is_json=is_json))
