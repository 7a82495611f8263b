"""The lines of a start that tell how to connect: with the key only if it is new."""

from pathlib import Path
from shlex import join

from twinbus.config.config import Config, local_connection_string
from twinbus.process.data_folder import RootKey
from twinbus.store.urls import without_password


def connection_lines(config: Config, port: int, root: RootKey) -> tuple[str, ...]:
    """The connection string on a line of its own, with the key if that is new. If not,
    the file with the key, and the command that prints both."""
    if root.is_new:
        return (local_connection_string(config.host, port, root.text),)
    where = "the key that was given"
    if root.file is not None or root.catalog:
        where = f"in {root.file or root.catalog}"
    shown = local_connection_string(config.host, port, f"<{where}>")
    if root.file is None and not root.catalog:
        return (shown,)
    return (shown, f"With the key: {own_command('connection-string', config, port)}")


def own_command(name: str, config: Config, port: int) -> str:
    """A command about this server, quoted for a shell."""
    default = Config()
    flags: list[str] = []
    for flag, value, usual in (
        ("--data", config.data, default.data),
        ("--catalog", without_password(config.catalog), default.catalog),
        ("--host", config.host, default.host),
        ("--port", port, default.port),
    ):
        if value != usual:
            shown = value.absolute() if isinstance(value, Path) else value
            flags += [flag, str(shown)]
    return join(["twinbus", name, *flags])
