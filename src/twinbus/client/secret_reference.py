"""References to secrets: `env:NAME` or `file:PATH` instead of the secret itself.

A reference may be shown, logged and sent to other hosts; the secret may not. Errors
name the variable or the file, never its content.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_VARIABLE: Final = "env:"
FILE: Final = "file:"


class UnreadableReference(ValueError):
    """The secret cannot be read; the text says why, without a full stop."""


def is_reference(text: str) -> bool:
    return text.startswith((_VARIABLE, FILE))


def read_reference(reference: str, environment: Mapping[str, str]) -> str:
    """The secret, without blanks around it. Raises UnreadableReference."""
    if reference.startswith(_VARIABLE):
        name = reference.removeprefix(_VARIABLE)
        secret = environment.get(name, "").strip()
        missing = f"there is no variable {name}, or it is empty"
    else:
        file = Path(reference.removeprefix(FILE))
        secret = _content(file).strip()
        missing = f"{file}: the file is empty"
    if not secret:
        raise UnreadableReference(missing)
    return secret


def _content(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        why = os.strerror(error.errno or 0)
    except UnicodeDecodeError:
        why = "not a text"
    raise UnreadableReference(f"{file}: {why}")
