"""How far the operation log of a store is exported, so that nothing is trimmed before.

Of a store that is a file it is in a file beside it, one number for each folder that it
is exported to. The exporter must not write to the store itself: commits would wait for
it.
"""

import json
import os
import secrets
from pathlib import Path
from typing import Final

from twinbus.broker.log_book import BLOCK_SHIFT

_WAITING: Final = 900_000
"""So many commits more are kept for an export that is behind, or was given up."""


def position_file(store: Path) -> Path:
    """Where the positions of a store's exports are."""
    return store.with_name(f"{store.name}.exported")


def note_exported(store: Path, folder: str, batch: int) -> None:
    """Everything up to this commit is in synced files of the folder. Raises OSError."""
    file = position_file(store)
    positions = {**_positions(file), folder: batch}
    unfinished = file.with_name(f"{file.name}.new-{secrets.token_hex(8)}")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(json.dumps(positions) + "\n")
        stream.flush()
        os.fsync(stream.fileno())
    unfinished.rename(file)


def exported_through(store: Path) -> int | None:
    """The commit up to which all exports are done; None if there is no export."""
    return min(_positions(position_file(store)).values(), default=None)


def _positions(file: Path) -> dict[str, int]:
    try:
        found = json.loads(file.read_text())
        return {str(folder): int(batch) for folder, batch in found.items()}
    except (OSError, ValueError, AttributeError):
        return {}


def may_trim(through: int, exported: int | None) -> int:
    """Up to which commit the log may be trimmed, if up to `through` is wanted. Who goes
    on with an export reads its last block once more."""
    if exported is None:
        return through
    block = exported >> BLOCK_SHIFT << BLOCK_SHIFT
    return min(through, max(block - 1, through - _WAITING))
