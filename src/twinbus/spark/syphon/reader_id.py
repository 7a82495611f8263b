"""The id by which the leases of a job are known.

It belongs to the checkpoint: a job that is started again with the same checkpoint has
its leases at once; with another checkpoint it is another reader. A folder on this host
keeps the id in a file. For a URL, which all hosts share, the id is made from the URL.
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
    """The folder of the checkpoint, if it is on this host."""
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
            # Atomic, also if two runs begin at the same time.
            made.replace(file)
        return file.read_text().strip()
    except OSError as error:
        raise SyphonError(
            f"The checkpoint {folder} cannot be used: {error.strerror}. Give a folder "
            "that can be written to, or a URL of shared storage."
        ) from None
