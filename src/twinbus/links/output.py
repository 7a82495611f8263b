"""Collects connections that have output, so that each writes once per turn.

In one turn of a store's owner, links of many connections are served. Each marks its
connection; at the end of the turn every marked connection writes all its frames at
once.
"""

from collections.abc import Callable
from typing import final


@final
class Outputs:
    """The connections of the server that have output."""

    def __init__(self) -> None:
        self._marked: list[Output] = []

    def add(self, output: "Output") -> None:
        self._marked.append(output)

    def flush(self) -> None:
        """Let every marked connection write."""
        while self._marked:
            marked, self._marked = self._marked, []
            for output in marked:
                output.flush()


@final
class Output:
    """The output of one connection."""

    def __init__(self, outputs: Outputs, write: Callable[[], None]) -> None:
        self._outputs: Outputs = outputs
        # Writes the output of the connection's engine.
        self._write: Callable[[], None] = write
        self._is_marked: bool = False
        # True while the peer reads fast enough. Set by the connection.
        self.is_writable: bool = True
        # Received input is waiting to be processed. Set by the connection.
        self.is_behind: bool = False
        # Credit to renew after that. Until then, messages that were sent under the old
        # credit are still waiting.
        self._renewals: list[Callable[[], None]] = []

    def renew_later(self, renew: Callable[[], None]) -> None:
        self._renewals.append(renew)

    def caught_up(self) -> None:
        """All received input has been processed."""
        self.is_behind = False
        if self._renewals:
            renewals, self._renewals = self._renewals, []
            for renew in renewals:
                renew()

    def mark(self) -> None:
        """The connection has output."""
        if not self._is_marked:
            self._is_marked = True
            self._outputs.add(self)

    def flush(self) -> None:
        self._is_marked = False
        self._write()

    def flush_all(self) -> None:
        """Write now; used outside of a turn."""
        self._outputs.flush()
