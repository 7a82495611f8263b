"""Where messages to send come from: an argument, files, standard input.

Files are read as their messages are sent, so that they may be larger than the memory.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.cli.messages.message_draft import Draft, DraftError, check_draft

STANDARD_INPUT: Final = "-"


class UnreadableDraft(Failure):
    """A message of a file cannot be read; those before it are good."""

    def __init__(self, text: str) -> None:
        super().__init__(text, exit_codes.USAGE)


def body_drafts(body: str, defaults: Draft, count: int) -> Iterator[Draft]:
    """The same message so many times."""
    draft = {**defaults, "body": body}
    for _ in range(count):
        yield draft


def file_drafts(files: list[str], defaults: Draft, count: int) -> Iterator[Draft]:
    """A message for each file, with its content as the body."""
    from base64 import b64encode

    for file in files:
        with _opened(file) as stream:
            content = stream.read()
        draft = {**defaults, "body_base64": b64encode(content).decode()}
        for _ in range(count):
            yield draft


def line_drafts(file: str, defaults: Draft) -> Iterator[Draft]:
    """A message for each line, with its text as the body."""
    with _opened(file) as stream:
        for number, line in enumerate(stream, 1):
            try:
                text = line.decode().rstrip("\r\n")
            except UnicodeDecodeError:
                raise UnreadableDraft(
                    f"Line {number} of {_named(file)} is not UTF-8. --file sends a "
                    "file of any content as one message."
                ) from None
            yield {**defaults, "body": text}


def json_drafts(file: str, defaults: Draft) -> Iterator[Draft]:
    """A message for each line of JSON; what it does not say is taken from the flags."""
    with _opened(file) as stream:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            try:
                draft = check_draft(json.loads(line))
            except (DraftError, ValueError) as error:
                why = str(error) if isinstance(error, DraftError) else "it is not JSON"
                raise UnreadableDraft(
                    f"Line {number} of {_named(file)}: {why}."
                ) from None
            yield {**defaults, **draft} if defaults else draft


def _named(file: str) -> str:
    return "standard input" if file == STANDARD_INPUT else file


@contextmanager
def _opened(file: str) -> Iterator[BinaryIO]:
    if file == STANDARD_INPUT:
        yield _standard_input()
        return
    try:
        stream = Path(file).open("rb")
    except OSError as error:
        raise UnreadableDraft(f"{file} can't be read: {error.strerror}.") from None
    with stream:
        yield stream


def _standard_input() -> BinaryIO:
    """A stream of our own: the thread that waits for a line holds the lock of its
    stream, and at the end Python takes that of `sys.stdin`, or aborts. Raises Failure.
    """
    if sys.stdin is None:
        raise UnreadableDraft("Standard input is closed.")
    return open(sys.stdin.fileno(), "rb", closefd=False)
