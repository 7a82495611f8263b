"""Flags of `twinbus spark syphon`, besides those of all commands about pairs."""

from typing import Annotated

import typer

SecondaryName = Annotated[
    str | None,
    typer.Option(
        "--secondary-name",
        metavar="NAME",
        help="What the primary's ledger calls the secondary: the name in [pair] if a "
        "server runs the syphon, too. Default: its host.",
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
        "--conf", metavar="KEY=VALUE", help="A setting of Spark; again for more."
    ),
]
