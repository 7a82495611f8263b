"""A client's own folder: its packages, and what was compiled for it.

It is made anew when the client's table or one of its sources has changed, and taken as
it is otherwise. Half a folder is never taken: the stamp is written last.
"""

import hashlib
import shutil
import subprocess
from pathlib import Path

from conformance.clients.declared import Client
from conformance.vendor import BUILD, CannotRun

_STAMP = "prepared"


def prepared(client: Client) -> Path:
    """The folder, ready for use. Raises CannotRun."""
    folder = BUILD / "clients" / client.name
    stamp = folder / _STAMP
    wanted = _digest(client)
    if stamp.exists() and stamp.read_text() == wanted:
        return folder
    for command in client.needs:
        if shutil.which(command) is None:
            raise CannotRun(f"{client.name} needs the command {command}")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for command in client.prepare:
        _run(client, command, folder)
    stamp.write_text(wanted)
    return folder


def placed(command: tuple[str, ...], client: Client, folder: Path) -> list[str]:
    """The command with its two folders filled in."""
    return [
        part.replace("{cache}", str(folder)).replace("{source}", str(client.source))
        for part in command
    ]


def _run(client: Client, command: tuple[str, ...], folder: Path) -> None:
    with (folder / "prepare.log").open("a") as log:
        ended = subprocess.run(
            placed(command, client, folder), cwd=folder, stdout=log, stderr=log
        )
    if ended.returncode != 0:
        raise CannotRun(
            f"{client.name} could not be prepared: `{' '.join(command)}` ended with "
            f"{ended.returncode}; see {folder / 'prepare.log'}"
        )


def _digest(client: Client) -> str:
    digest = hashlib.sha256(repr((client.needs, client.prepare)).encode())
    for path in sorted(client.source.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()
