"""Flags of commands that read the settings and the files of a bus on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from twinbus.cli.flags import setting

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="The settings of the bus. (TWINBUS_CONFIG)",
        metavar="FILE",
        envvar="TWINBUS_CONFIG",
        show_envvar=False,
    ),
]
Data = Annotated[
    str | None, setting("--data", "Folder that the bus keeps. Default: data.", "DIR")
]
Store = Annotated[
    str | None,
    setting(
        "--store",
        "Where messages are kept: sqlite:///PATH. Default: a SQLite file in the data "
        "folder.",
        "URL",
    ),
]
Host = Annotated[
    str | None, setting("--host", "Host of the server. Default: 127.0.0.1.", "HOST")
]
Port = Annotated[
    str | None, setting("--port", "Port of the server. Default: 5672.", "PORT")
]
