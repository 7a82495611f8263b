"""The error that ends a command: one line for people, an exit code for scripts."""

import sys

PROGRAM = "twinbus"


class Failure(Exception):
    """The command cannot go on; says why and what to do."""

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(text)
        self.exit_code = exit_code


class NobodyReads(Exception):
    """Whoever read what we print has enough, as `head` has."""


def complain(text: str) -> None:
    """One line on stderr, whatever the text was."""
    print(f"{PROGRAM}: {' '.join(text.split())}", file=sys.stderr, flush=True)
