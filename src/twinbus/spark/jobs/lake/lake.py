"""A lake as jobs see it: opened or made, its hours found, its manifests read."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import uuid4

from twinbus.spark.jobs.lake.errors import LakeDamaged, LakeError
from twinbus.spark.jobs.lake.folder import LakeFolder
from twinbus.spark.jobs.lake.identity import (
    LakeIdentity,
    read_identity,
    write_identity,
)
from twinbus.spark.jobs.lake.layout import (
    MANIFEST,
    MESSAGES,
    LakeHour,
    date_of,
    entity_of,
    hour_of,
)
from twinbus.spark.jobs.lake.manifest import HourManifest, read_manifest

_MS = 1000


@dataclass(frozen=True, slots=True)
class Lake:
    """A folder and whose it is."""

    folder: LakeFolder
    identity: LakeIdentity

    # --- hours ----------------------------------------------------------------

    def hours(
        self,
        entities: Collection[str] | None = None,
        start_at: int | None = None,
        end_at: int | None = None,
    ) -> list[LakeHour]:
        """Hours that have messages, in the order of time. Only of these entities, and
        only those that may have messages of that time; milliseconds."""
        wanted = None if entities is None else {name.lower() for name in entities}
        low = _name_of(start_at) if start_at is not None else ""
        high = _name_of(end_at) if end_at is not None else "~"
        return sorted(
            hour
            for hour in self._all_hours(wanted)
            if low <= f"{hour.date} {hour.hour}" <= high
        )

    def _all_hours(self, wanted: set[str] | None) -> Iterator[LakeHour]:
        for name in self.folder.sizes(MANIFEST):
            entity = entity_of(name)
            if entity is None or (wanted is not None and entity.lower() not in wanted):
                continue
            for day in self.folder.sizes(f"{MANIFEST}/{name}"):
                date = date_of(day)
                if date is None:
                    continue
                for file in self.folder.sizes(f"{MANIFEST}/{name}/{day}"):
                    hour = hour_of(file)
                    if hour is not None:
                        yield LakeHour(date, hour, entity)

    def entities(self) -> list[str]:
        """All that have ever been captured."""
        names = (entity_of(name) for name in self.folder.sizes(MANIFEST))
        return sorted(name for name in names if name is not None)

    def manifest(self, hour: LakeHour) -> HourManifest:
        """Empty if nothing was captured. Raises LakeError."""
        return read_manifest(self.folder, hour) or HourManifest(hour=hour)

    # --- checks ---------------------------------------------------------------

    def check_namespace(self, namespace: str, remedy: str) -> None:
        """Raises LakeError for a lake of another namespace."""
        if self.identity.namespace != namespace:
            raise LakeError(
                f"{self.folder.name} is the lake of the namespace "
                f"'{self.identity.namespace}', and this is '{namespace}'. {remedy}"
            )

    def check_files(self, manifest: HourManifest) -> None:
        """Raises LakeDamaged if a file is gone, or has another size."""
        if self.identity.data != "parquet":
            return
        for batch in manifest.batches:
            place = manifest.hour.batch(batch.batch)
            found = self.folder.sizes(place)
            for file in batch.files:
                size = found.get(file.name)
                if size != file.bytes:
                    state = "is gone" if size is None else f"has {size} bytes"
                    raise LakeDamaged(
                        f"{self.folder.name}: {place}/{file.name} {state}; by the "
                        f"manifest it has {file.bytes} bytes. The file is torn or was "
                        "changed: restore it from a copy of the lake."
                    )


def _name_of(instant: int) -> str:
    at = datetime.fromtimestamp(instant / _MS, UTC)
    return at.strftime("%Y-%m-%d %H")


def open_lake(folder: LakeFolder) -> Lake:
    """A lake that is there. Raises LakeError."""
    identity = read_identity(folder)
    if identity is None:
        raise LakeError(
            f"{folder.name} has no lake: there is no lake.json in it. Check the path, "
            "or make a lake with 'twinbus spark capture'."
        )
    return Lake(folder, identity)


def made_lake(folder: LakeFolder, namespace: str, data: str, created_at: str) -> Lake:
    """A lake that is there, or a new one. Raises LakeError."""
    identity = read_identity(folder)
    if identity is None:
        if folder.sizes(MANIFEST) or folder.sizes(MESSAGES):
            raise LakeError(
                f"{folder.name} has messages and no lake.json, which says whose they "
                "are. Restore the file from a copy, or capture into another folder."
            )
        identity = LakeIdentity(
            lake=uuid4().hex, namespace=namespace, data=data, created_at=created_at
        )
        write_identity(folder, identity)
    lake = Lake(folder, identity)
    lake.check_namespace(namespace, "Capture into another folder: one for each.")
    if identity.data != data:
        raise LakeError(
            f"{folder.name} has its messages as {identity.data}, and {data} was asked "
            "for. Capture into another folder, or as before."
        )
    return lake
