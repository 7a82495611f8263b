"""Flags of the commands of `twinbus spark`, besides those of others."""

from typing import Annotated

import typer

ListenedSecondary = Annotated[
    str | None,
    typer.Option(
        "--secondary",
        metavar="TEXT",
        help="Connection string of the secondary, with the Listen right, or file:PATH. "
        "(TWINBUS_SECONDARY)",
    ),
]
SecondaryName = Annotated[
    str | None,
    typer.Option(
        "--secondary-name",
        metavar="NAME",
        help="Name of the secondary in the primary's ledger. If a server runs the "
        "syphon, too, give the same as its [pair] section. Default: its host.",
    ),
]
Continuous = Annotated[
    bool, typer.Option("--continuous", help="Do not end when the backlog is empty.")
]
MissingEntityGrace = Annotated[
    str,
    typer.Option(
        metavar="DURATION",
        help="How long messages wait for an entity that does not exist, before they "
        "become dead letters.",
    ),
]
Master = Annotated[str, typer.Option(metavar="URL", help="Which Spark runs it.")]
Checkpoint = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER",
        help="Where Spark keeps its progress: a folder, or a URL. Default: a folder "
        "that is removed at the end.",
    ),
]
MaxMessagesPerBatch = Annotated[
    int,
    typer.Option(metavar="NUMBER", min=1, max=1_000_000, help="Messages of one batch."),
]
Timeout = Annotated[
    str,
    typer.Option(
        metavar="DURATION", help="How long to wait for a side that does not answer."
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option(
        "--conf", metavar="KEY=VALUE", help="A setting of Spark; may be repeated."
    ),
]
LakeOf = Annotated[
    str,
    typer.Option(
        "--lake",
        metavar="FOLDER",
        help="Where the lake is: a folder that all hosts of Spark share, or a URL.",
    ),
]
BusOf = Annotated[
    str | None,
    typer.Option(
        "--connection-string",
        metavar="TEXT",
        help="Connection string of the namespace, or file:PATH. "
        "(TWINBUS_CONNECTION_STRING)",
    ),
]
