"""The mark of a data folder that a bus is being restored into.

A restore writes to several places, which cannot change together. While the mark is
there no bus starts with the folder, and the same restore, run again, begins anew: what
the mark names is its own.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from twinbus.config.config import ConfigError
from twinbus.store.sqlite_file import sync_folder

_NAME: Final = "restoring.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreMark:
    """What is being restored, and where to."""

    backup: str
    backup_id: str
    # Of the stores, and of the catalog.
    places: list[str]
    # The folder was made by the restore.
    made_folder: bool


def mark_of(data: Path) -> RestoreMark | None:
    """Raises ConfigError if it cannot be read."""
    path = data / _NAME
    try:
        return RestoreMark(**json.loads(path.read_text()))
    except FileNotFoundError:
        return None
    except (OSError, TypeError, ValueError) as error:
        raise ConfigError(
            f"A restore into {data} has not ended, and {path} cannot be read: {error}. "
            "Remove what was restored, or restore into another folder."
        ) from None


def put_mark(data: Path, mark: RestoreMark) -> None:
    unfinished = data / f"{_NAME}.new"
    unfinished.write_text(json.dumps(asdict(mark)))
    unfinished.rename(data / _NAME)
    sync_folder(data)


def remove_mark(data: Path) -> None:
    (data / f"{_NAME}.new").unlink(missing_ok=True)
    (data / _NAME).unlink(missing_ok=True)
    if data.exists():
        sync_folder(data)


def is_mark(path: Path) -> bool:
    return path.name.removesuffix(".new") == _NAME


def refuse_unfinished(data: Path) -> None:
    """Raises ConfigError."""
    mark = mark_of(data)
    if mark is not None:
        raise ConfigError(
            f"The restore of {mark.backup} into {data} has not ended. Run the same "
            "'twinbus restore' again."
        )
