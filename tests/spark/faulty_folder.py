"""A folder of a lake that fails at one step, as if the process had died there."""

from pathlib import Path

from twinbus.spark.jobs.lake.errors import LakeError
from twinbus.spark.jobs.lake.folder import LocalFolder


class FolderFailed(LakeError):
    """It did, on purpose."""


class FaultyFolder(LocalFolder):
    """Fails instead of the n-th change, and of all that follow."""

    def __init__(self, root: Path, fails_at: int) -> None:
        super().__init__(root)
        self._left = fails_at

    def _step(self) -> None:
        self._left -= 1
        if self._left <= 0:
            raise FolderFailed

    def replace(self, path: str, text: str) -> None:
        self._step()
        super().replace(path, text)

    def move(self, source: str, target: str) -> None:
        self._step()
        super().move(source, target)

    def remove(self, path: str) -> None:
        self._step()
        super().remove(path)
