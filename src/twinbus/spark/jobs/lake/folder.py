"""Files of a lake, on this host or in any storage that Spark knows.

`replace` is atomic: a reader finds the old content or the new one, also after a crash.
`move` is atomic where the storage renames folders at once, which object stores do not;
nothing reads a folder before the manifest names it.
"""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from twinbus.spark.jobs.lake.errors import LakeDamaged, LakeError, first_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class LakeFolder(Protocol):
    """Paths are relative to the lake, with slashes."""

    # The lake, as its user wrote it.
    name: str

    def url(self, path: str = "") -> str:
        """For Spark."""

    def read(self, path: str) -> str | None:
        """The text of a file; None if there is none."""

    def replace(self, path: str, text: str) -> None:
        """Write a file, durably."""

    def sizes(self, path: str) -> dict[str, int]:
        """Names and sizes of what a folder has; none if there is no such folder. The
        size of a folder is 0."""

    def move(self, source: str, target: str) -> None:
        """Move a folder, in place of another one, durably."""

    def remove(self, path: str) -> None:
        """Remove a file or a folder, if it is there."""

    def sync(self) -> None:
        """Make durable what others have written here."""


def open_folder(spark: "SparkSession", place: str) -> LakeFolder:
    """A folder, or a URL. Raises LakeError."""
    if not place.strip():
        raise LakeError("The lake has no place: name a folder, or a URL.")
    url = urlsplit(place)
    if url.scheme == "file":
        return LocalFolder(Path(unquote(url.path)), place)
    if len(url.scheme) > 1:
        return StorageFolder(spark, place)
    return LocalFolder(Path(place).absolute(), place)


class LocalFolder:
    """`LakeFolder` on this host."""

    def __init__(self, root: Path, name: str | None = None) -> None:
        self.root = root
        self.name = name or str(root)

    def url(self, path: str = "") -> str:
        # Not quoted: Spark takes the text as it is.
        return f"file:{self.root / path}" if path else f"file:{self.root}"

    def read(self, path: str) -> str | None:
        with _plainly(self.name, path):
            try:
                return (self.root / path).read_text()
            except (FileNotFoundError, NotADirectoryError):
                return None
            except UnicodeDecodeError:
                raise LakeDamaged(
                    f"{self.name}: {path} is not a text: it is damaged."
                ) from None

    def replace(self, path: str, text: str) -> None:
        file = self.root / path
        with _plainly(self.name, path):
            file.parent.mkdir(parents=True, exist_ok=True)
            made = file.with_name(f".{file.name}.{uuid4().hex}")
            with made.open("w") as output:
                output.write(text)
                output.flush()
                os.fsync(output.fileno())
            made.replace(file)
            _sync_folder(file.parent)

    def sizes(self, path: str) -> dict[str, int]:
        with _plainly(self.name, path):
            try:
                found = sorted(os.scandir(self.root / path), key=lambda one: one.name)
            except (FileNotFoundError, NotADirectoryError):
                return {}
            return {
                one.name: 0 if one.is_dir() else one.stat().st_size for one in found
            }

    def move(self, source: str, target: str) -> None:
        there, here = self.root / target, self.root / source
        with _plainly(self.name, target):
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(there, ignore_errors=True)
            for file in here.iterdir():
                _sync(file)
            _sync_folder(here)
            here.rename(there)
            _sync_folder(there.parent)

    def remove(self, path: str) -> None:
        gone = self.root / path
        with _plainly(self.name, path):
            if gone.is_dir():
                shutil.rmtree(gone)
            else:
                gone.unlink(missing_ok=True)

    def sync(self) -> None:
        # Of the whole machine: nobody tells which files Delta has written.
        os.sync()


def _sync(file: Path) -> None:
    with file.open("rb") as opened:
        os.fsync(opened.fileno())


def _sync_folder(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


@contextmanager
def _plainly(lake: str, path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LakeError(
            f"{lake}: {path or 'the folder'} cannot be used: "
            f"{error.strerror or error}. Give a folder that can be written to, with "
            "room in it."
        ) from None


_RENAMING = frozenset(("hdfs", "viewfs", "file", "webhdfs", "abfs", "abfss"))
"""Storage in which a rename is one step. In others a file appears when it is closed."""


class StorageFolder:
    """`LakeFolder` in a storage that Spark reaches, with Spark's own configuration."""

    def __init__(self, spark: "SparkSession", place: str) -> None:
        self.name = place
        self._root = place.rstrip("/")
        self._is_renaming = urlsplit(place).scheme in _RENAMING
        jvm: Any = spark._jvm
        java: Any = spark._jsc
        if jvm is None or java is None:
            raise LakeError(
                "A lake in a storage needs a classic session of Spark, not Spark "
                "Connect. Use spark-submit, or --master."
            )
        self._jvm: Any = jvm
        self._gateway: Any = spark.sparkContext._gateway
        configuration = java.hadoopConfiguration()
        with _told(place, ""):
            self._files: Any = self._path("").getFileSystem(configuration)
            self._context: Any = jvm.org.apache.hadoop.fs.FileContext.getFileContext(
                self._path("").toUri(), configuration
            )

    def url(self, path: str = "") -> str:
        return f"{self._root}/{path}" if path else self._root

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.url(path))

    def read(self, path: str) -> str | None:
        with _told(self.name, path):
            if not self._files.exists(self._path(path)):
                return None
            opened = self._files.open(self._path(path))
            try:
                copied = self._jvm.org.apache.commons.io.IOUtils.toString(
                    opened, "UTF-8"
                )
            finally:
                opened.close()
            return str(copied)

    def replace(self, path: str, text: str) -> None:
        target = self._path(path)
        with _told(self.name, path):
            if not self._is_renaming:
                self._write(target, text)
                return
            folder, _, name = path.rpartition("/")
            made = self._path(f"{folder}/.{name}.{uuid4().hex}".lstrip("/"))
            self._write(made, text)
            rename = self._jvm.org.apache.hadoop.fs.Options.Rename
            options = self._gateway.new_array(rename, 1)
            options[0] = rename.OVERWRITE
            self._context.rename(made, target, options)

    def _write(self, path: Any, text: str) -> None:
        output = self._files.create(path, True)
        try:
            output.write(bytearray(text.encode()))
            output.hsync() if output.hasCapability("hsync") else output.flush()
        finally:
            output.close()

    def sizes(self, path: str) -> dict[str, int]:
        with _told(self.name, path):
            if not self._files.exists(self._path(path)):
                return {}
            found = self._files.listStatus(self._path(path))
            sizes = {
                str(one.getPath().getName()): 0 if one.isDirectory() else one.getLen()
                for one in found
            }
            return dict(sorted(sizes.items()))

    def move(self, source: str, target: str) -> None:
        with _told(self.name, target):
            there = self._path(target)
            self._files.delete(there, True)
            self._files.mkdirs(there.getParent())
            if not self._files.rename(self._path(source), there):
                raise LakeError(f"{self.name}: {source} cannot be moved to {target}.")

    def remove(self, path: str) -> None:
        with _told(self.name, path):
            self._files.delete(self._path(path), True)

    def sync(self) -> None:
        """Nothing to do: in a storage a file is durable when it is closed."""


@contextmanager
def _told(lake: str, path: str) -> Iterator[None]:
    from py4j.protocol import Py4JError

    try:
        yield
    except Py4JError as error:
        raise LakeError(
            f"{lake}: {path or 'the folder'} cannot be used: {first_line(error)}"
        ) from None


def parsed(folder: LakeFolder, path: str, text: str) -> dict[str, Any]:
    """The content of a JSON file. Raises LakeDamaged."""
    try:
        content = json.loads(text)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise LakeDamaged(
            f"{folder.name}: {path} is torn or damaged: it is not a JSON object. "
            "Restore it from a copy of the lake."
        )
    return content
