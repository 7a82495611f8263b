"""The contexts of a user: names for namespaces, one of which is the current one.

They are in one file of the user's config folder, which only the user may read. What a
context says is a connection string, or a reference to one (`file:PATH`, `env:NAME`);
the key in a connection string may be a reference, too. Nothing here prints a secret.

The file is replaced as a whole, so that it is never half-written.
"""

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.client.secret_reference import (
    UnreadableReference,
    is_reference,
    read_reference,
)

CONTEXT_VARIABLE: Final = "TWINBUS_CONTEXT"
"""Names the context of a shell, instead of the current one."""

_FORMAT: Final = 1
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_KEY: Final = re.compile(r"(SharedAccessKey\s*=\s*)((?:file|env):[^;]+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ContextEntry:
    """A namespace. `text` may be a secret, so it is not shown."""

    name: str
    text: str = field(repr=False)
    # A file with the authority of its certificate; empty: the system's.
    ca_file: str = ""

    def connection_string(self, environment: Mapping[str, str]) -> str:
        """The connection string with its key. Raises Failure."""
        try:
            text = self.text
            if is_reference(text):
                text = read_reference(text, environment)
            return _KEY.sub(
                lambda found: found[1] + read_reference(found[2].strip(), environment),
                text,
            )
        except UnreadableReference as error:
            raise Failure(
                f"The context '{self.name}' can't be read: {error}. 'twinbus context "
                f"show {self.name}' shows where its key is.",
                exit_codes.USAGE,
            ) from None

    def secret_place(self) -> str:
        """Where the secret is, for people: a reference, or the file of contexts."""
        if is_reference(self.text):
            return self.text
        found = _KEY.search(self.text)
        return "the file of contexts" if found is None else found[2].strip()


@dataclass(slots=True)
class Contexts:
    """All contexts, and the name of the current one; empty if there is none."""

    entries: dict[str, ContextEntry] = field(default_factory=dict)
    current: str = ""

    def get(self, name: str) -> ContextEntry:
        """Raises Failure."""
        if name not in self.entries:
            known = ", ".join(sorted(self.entries)) or "none"
            raise Failure(
                f"There is no context '{name}'; there are: {known}. 'twinbus context "
                f"add {name} -' makes it.",
                exit_codes.NOT_FOUND,
            )
        return self.entries[name]


def contexts_path(environment: Mapping[str, str]) -> Path:
    """The file of contexts, which need not exist."""
    folder = environment.get("XDG_CONFIG_HOME", "")
    # A relative path is to be ignored (XDG Base Directory Specification).
    base = Path(folder) if folder.startswith("/") else Path.home() / ".config"
    return base / "twinbus" / "contexts.json"


def check_context_name(name: str) -> None:
    """Raises Failure."""
    if not _NAME.fullmatch(name):
        raise Failure(
            f"'{name}' can't be the name of a context: use up to 64 letters, digits, "
            "'.', '-' and '_', and begin with a letter or digit.",
            exit_codes.USAGE,
        )


def load_contexts(file: Path) -> Contexts:
    """Raises Failure."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        return _contexts(content)
    except FileNotFoundError:
        return Contexts()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is damaged"
        raise Failure(
            f"The contexts in {file} can't be read: {why}. Mend or remove the file.",
            exit_codes.USAGE,
        ) from None


def _contexts(content: Any) -> Contexts:
    if content["format"] != _FORMAT:
        raise ValueError("another format")
    entries = {
        str(name): ContextEntry(
            str(name), str(entry["connection_string"]), str(entry.get("ca_file", ""))
        )
        for name, entry in content["contexts"].items()
    }
    return Contexts(entries, str(content["current"]))


def save_contexts(file: Path, contexts: Contexts) -> None:
    """Raises Failure."""
    content = {
        "format": _FORMAT,
        "current": contexts.current,
        "contexts": {
            name: {"connection_string": entry.text}
            | ({"ca_file": entry.ca_file} if entry.ca_file else {})
            for name, entry in sorted(contexts.entries.items())
        },
    }
    new = file.with_name(f"{file.name}.{os.getpid()}.new")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            new.unlink()
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as stream:
            stream.write(json.dumps(content, indent=2) + "\n")
        new.replace(file)
    except OSError as error:
        raise Failure(
            f"The contexts can't be written to {file}: {error.strerror}.",
            exit_codes.FAILED,
        ) from None
