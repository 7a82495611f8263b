"""Writes files that appear under their name only when they are complete.

A private file is private from the beginning.
"""

import os
import secrets
from pathlib import Path
from typing import Final

PRIVATE: Final = 0o600
PUBLIC: Final = 0o644


def write_whole(file: Path, content: bytes, mode: int) -> None:
    """Write the complete file at once. Raises OSError."""
    unfinished = file.with_name(f"{file.name}.new-{secrets.token_hex(8)}")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(descriptor)
    unfinished.rename(file)
