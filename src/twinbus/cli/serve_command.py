"""`twinbus serve`: its flags. What it does with them is in `serve.py`.

Besides `--config` the flags are the settings, from the table in `config/settings.py`.
"""

import os
from pathlib import Path
from typing import Annotated, Final

import typer

from twinbus.cli.command_group import examples
from twinbus.cli.flags import setting_flag, takes
from twinbus.config.settings import SETTINGS

EXAMPLES: Final = examples(
    "twinbus serve",
    "twinbus serve --data /var/lib/twinbus --config bus.toml",
    "twinbus serve --brokers 2 --store sqlite:///a.sqlite3 --store sqlite:///b.sqlite3",
    "twinbus serve --catalog postgresql://db/bus --store postgresql://db/bus "
    "--peer-host 10.0.0.7",
    "twinbus serve --store memory: --port 0 --http-port 0 --tls-port 0",
    "TWINBUS_PORT=5680 twinbus serve --host 0.0.0.0",
)


@takes(*map(setting_flag, SETTINGS))
def serve(
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            help="Settings and entities: TOML, or the vendor emulator's Config.json. "
            "(TWINBUS_CONFIG)",
            metavar="FILE",
            envvar="TWINBUS_CONFIG",
            show_envvar=False,
        ),
    ] = None,
    **flags: object,
) -> None:
    """Run the bus until it is told to stop (SIGTERM, or Ctrl-C).

    Prints the connection string, and `ready` when it can send and receive.
    """
    from twinbus.cli.serve import run_broker, run_server
    from twinbus.cli.settings import settings
    from twinbus.process.seat import Seat, inherited_seat, own_name
    from twinbus.store.urls import is_for_machines

    found, seat = settings(config, **flags), inherited_seat()
    if seat is not None:
        run_broker(found, seat)
    elif found.brokers > 1:
        from twinbus.cli.supervise import run_supervisor

        run_supervisor(found)
    elif found.join or is_for_machines(found.catalog):
        run_broker(found, Seat(name=own_name(f"of process {os.getpid()}", found)))
    else:
        run_server(found)
