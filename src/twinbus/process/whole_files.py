"""Files that appear under their name only when they are whole.

What has to be private is so from its first moment on.
"""

import os
import secrets
from pathlib import Path
from typing import Final

PRIVATE: Final = 0o600
PUBLIC: Final = 0o644


def write_whole(file: Path, content: bytes, mode: int) -> None:
    """Put the whole file there at once. Raises OSError."""
    unfinished = file.with_name(f"{file.name}.new-{secrets.token_hex(8)}")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(descriptor)
    unfinished.rename(file)
