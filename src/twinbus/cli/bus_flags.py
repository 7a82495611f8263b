"""Flags of commands that read the settings and the files of a bus on this machine."""

from pathlib import Path
from typing import Annotated, Final

import typer

from twinbus.cli.flags import flag, setting_flag

CONFIG: Final = flag(
    "config",
    Annotated[
        Path | None,
        typer.Option(
            "--config",
            help="The settings of the bus. (TWINBUS_CONFIG)",
            metavar="FILE",
            envvar="TWINBUS_CONFIG",
            show_envvar=False,
        ),
    ],
)
ADDRESS: Final = (
    CONFIG,
    setting_flag("data"),
    setting_flag("catalog"),
    setting_flag("host", "Host of the server."),
    setting_flag("port", "Port of the server."),
)
FILES: Final = (
    CONFIG,
    setting_flag("data"),
    setting_flag("catalog"),
    setting_flag(
        "store", "Where messages are kept: sqlite:///PATH. Once for each store."
    ),
)
