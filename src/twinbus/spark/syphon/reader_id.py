"""The id by which the leases of a job are known.

It belongs to the checkpoint: a job that is started again with it takes over at once
what it held, and one with another checkpoint is another reader. A folder of this host
keeps it in a file; a URL is a place that all hosts share, and so its id follows from
it.
"""

from hashlib import sha256
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from uuid import uuid4

from twinbus.spark.syphon.errors import SyphonError

_FILE: Final = "twinbus-reader"


def reader_id(checkpoint: str, primary_name: str) -> str:
    """Raises SyphonError."""
    folder = local_folder(checkpoint)
    if folder is None:
        key = sha256(checkpoint.rstrip("/").encode()).hexdigest()[:32]
    else:
        key = _kept(folder)
    return f"spark-syphon/{primary_name[:80]}/{key}"


def local_folder(checkpoint: str) -> Path | None:
    """The folder that is meant, if it is one of this host."""
    url = urlsplit(checkpoint)
    if url.scheme == "file":
        return Path(url.path)
    return None if len(url.scheme) > 1 else Path(checkpoint)


def _kept(folder: Path) -> str:
    file = folder / _FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            made = folder / f"{_FILE}.{uuid4().hex}"
            made.write_text(uuid4().hex)
            # Whole or not at all, also if two begin at the same time.
            made.replace(file)
        return file.read_text().strip()
    except OSError as error:
        raise SyphonError(
            f"The checkpoint {folder} cannot be used: {error.strerror}. Give a folder "
            "that can be written to, or a URL of shared storage."
        ) from None
