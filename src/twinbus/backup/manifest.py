"""What a backup says of itself: where it comes from, of which moment, and its files.

A backup is a folder. Its manifest is written last and has the digest of every other
file and of itself: so a folder with a valid manifest is a whole backup, and a copy of
it can be verified anywhere.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from twinbus.store.base import StoreError

MANIFEST: Final = "manifest.json"
CATALOG: Final = "catalog.json"
FORMAT: Final = 1
SQLITE: Final = "sqlite"
POSTGRES: Final = "postgresql"

_PORTION_BYTES: Final = 1 << 20
_DIGEST: Final = "sha256"

Progress = Callable[[str], None]
"""Told of each step, and of how far it has come."""


class BackupDamaged(StoreError):
    """A file of the backup is missing, or is not what it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackedUpFile:
    """One file of a backup."""

    # Relative to the folder, with slashes.
    name: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BackedUpStore:
    """One store, as it was at the moment of the backup."""

    kind: str
    # For people, without a password.
    location: str
    uuid: str
    format_version: int
    epoch: int
    # Number of the last commit.
    batch: int
    message_count: int
    # A file, or a folder with a file for each table.
    place: str
    # Of a PostgreSQL store: columns and rows of each table, and numbers of the journal.
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupManifest:
    """All of it."""

    backup_id: str
    twinbus_version: str
    began_at: int
    # Everything that was confirmed before this instant is in the backup.
    moment_at: int
    # How long the bus could not commit.
    held_ms: float
    catalog_location: str
    entity_count: int
    stores: tuple[BackedUpStore, ...]
    files: tuple[BackedUpFile, ...]

    @property
    def message_count(self) -> int:
        return sum(store.message_count for store in self.stores)

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


def digest_of(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as stream:
        while portion := stream.read(_PORTION_BYTES):
            found.update(portion)
    return found.hexdigest()


def described(folder: Path, progress: Progress) -> tuple[BackedUpFile, ...]:
    """All files of a folder, but for its manifest."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    found = []
    for path in paths:
        name = path.relative_to(folder).as_posix()
        if name != MANIFEST:
            progress(f"digest of {name}")
            size_bytes = path.stat().st_size
            digest = digest_of(path)
            found.append(BackedUpFile(name=name, size_bytes=size_bytes, sha256=digest))
    return tuple(found)


def write_manifest(folder: Path, manifest: BackupManifest) -> Path:
    fields = {"format": FORMAT, **asdict(manifest)}
    path = folder / MANIFEST
    fields[_DIGEST] = _own_digest(fields)
    path.write_text(json.dumps(fields, indent=2) + "\n")
    return path


def read_manifest(folder: Path) -> BackupManifest:
    """Raises BackupDamaged, StoreError."""
    path = folder / MANIFEST
    try:
        fields = json.loads(path.read_text())
    except FileNotFoundError:
        raise StoreError(
            f"{folder} is not a backup: it has no {MANIFEST}. A backup that was "
            "interrupted has none."
        ) from None
    except (OSError, ValueError) as error:
        raise BackupDamaged(f"{path} cannot be read: {error}.") from None
    if not isinstance(fields, dict) or fields.pop(_DIGEST, "") != _own_digest(fields):
        raise BackupDamaged(f"{path} is not what it was: its digest is another.")
    if fields.pop("format") > FORMAT:
        raise StoreError(
            f"{path} was written by twinbus {fields['twinbus_version']}, in a format "
            "that this one does not know. Use that version, or a newer one."
        )
    stores = tuple(BackedUpStore(**store) for store in fields.pop("stores"))
    files = tuple(BackedUpFile(**file) for file in fields.pop("files"))
    return BackupManifest(**fields, stores=stores, files=files)


def verify_files(folder: Path, manifest: BackupManifest, progress: Progress) -> None:
    """Raises BackupDamaged if one is missing or changed."""
    for file in manifest.files:
        progress(f"verifying {file.name}")
        path = folder / file.name
        if not path.is_file():
            raise BackupDamaged(f"{path} is missing.")
        size_bytes = path.stat().st_size
        if size_bytes != file.size_bytes:
            raise BackupDamaged(
                f"{path} has {size_bytes} bytes, and had {file.size_bytes}."
            )
        if digest_of(path) != file.sha256:
            raise BackupDamaged(f"{path} is not what it was: its digest is another.")


def _own_digest(fields: Mapping[str, Any]) -> str:
    text = json.dumps(fields, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
