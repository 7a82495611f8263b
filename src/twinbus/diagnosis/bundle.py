"""A diagnosis on disk: one folder, with an index of what is in it.

    diagnosis/20261117T120000.123-stall/index.json
                                        stacks.txt
                                        ...

It is written under another name and renamed when it is complete. A part that cannot be
made is named in the index with its error, and the others are there. Secrets that the
process knows are struck out of every part, wherever they come from. The oldest are
removed, so that a bus that is restarted again and again does not fill the disk.
"""

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from twinbus import __version__
from twinbus.diagnosis.sickness import Sickness
from twinbus.instants import instant_of
from twinbus.limits import DIAGNOSIS_PART_BYTES

FOLDER: Final = "diagnosis"
_INCOMPLETE: Final = "incomplete-"
_STRUCK_OUT: Final = "***"
_LEAST_CHARACTERS: Final = 4
"""A shorter secret protects nothing, and without its letters a part is unreadable."""

Parts = Mapping[str, Callable[[], str]]


def write_bundle(
    data: Path,
    why: Sickness,
    parts: Parts,
    secrets: Sequence[str],
    *,
    now: int,
    kept_count: int,
    broker: str = "",
) -> Path:
    """The folder of the diagnosis; `broker` is in its name: several brokers may share
    the data folder. Raises OSError."""
    place = data / FOLDER
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = f"{instant_of(now):%Y%m%dT%H%M%S}.{now % 1000:03d}-{why.kind}"
    if broker:
        name += f"-broker-{broker.replace(' ', '-')}"
    unfinished, folder = place / f"{_INCOMPLETE}{name}", place / name
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(mode=0o700)
    index = {
        "why": why.kind,
        "text": _without(secrets, why.text),
        "at": instant_of(now).isoformat(),
        "version": __version__,
        "process": os.getpid(),
        "parts": {
            part: _write(unfinished / part, make, secrets)
            for part, make in parts.items()
        },
    }
    (unfinished / "index.json").write_text(json.dumps(index, indent=2) + "\n")
    shutil.rmtree(folder, ignore_errors=True)
    unfinished.rename(folder)
    _remove_oldest(place, kept_count)
    return folder


def _write(
    file: Path, make: Callable[[], str], secrets: Sequence[str]
) -> dict[str, object]:
    """What the index says about the part."""
    try:
        text = _without(secrets, make())
    except Exception as error:
        # The process is sick: whatever is wrong with one part, the others are wanted.
        return {"missing": _without(secrets, f"{type(error).__name__}: {error}")}
    content = text.encode(errors="backslashreplace")
    file.write_bytes(content[:DIAGNOSIS_PART_BYTES])
    return {"bytes": len(content), "is_cut": len(content) > DIAGNOSIS_PART_BYTES}


def _without(secrets: Sequence[str], text: str) -> str:
    for secret in secrets:
        if len(secret) >= _LEAST_CHARACTERS:
            text = text.replace(secret, _STRUCK_OUT)
    return text


def _remove_oldest(place: Path, kept_count: int) -> None:
    """Their names begin with their times."""
    folders = sorted(each for each in place.iterdir() if each.is_dir())
    whole = [each for each in folders if not each.name.startswith(_INCOMPLETE)]
    for folder in whole[:-kept_count]:
        shutil.rmtree(folder, ignore_errors=True)
