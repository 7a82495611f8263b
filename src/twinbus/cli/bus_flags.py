"""Flags of commands that read the settings and the files of a bus on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from twinbus.cli.setting_flags import setting_flag

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
Data = Annotated[str | None, setting_flag("data")]
Store = Annotated[
    str | None, setting_flag("store", "Where messages are kept: sqlite:///PATH.")
]
Host = Annotated[str | None, setting_flag("host", "Host of the server.")]
Port = Annotated[str | None, setting_flag("port", "Port of the server.")]
