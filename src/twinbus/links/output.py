"""Which connections have something to write, so that each writes once per turn.

Links of many connections are served in one turn of a store's owner. Each marks its
connection; at the end of the turn every marked connection makes one write of all
its frames.
"""

from collections.abc import Callable
from typing import final


@final
class Outputs:
    """The connections of the server that have something to write."""

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
        # Writes what the connection's engine has to send.
        self._write: Callable[[], None] = write
        self._is_marked: bool = False
        # The peer reads; bytes do not pile up. Set by the connection.
        self.is_writable: bool = True
        # More of what the peer has sent is here already. Set by the connection.
        self.is_behind: bool = False
        # Credit to renew when that is no longer so: what was sent before credit was
        # given cannot be sent because of it.
        self._renewals: list[Callable[[], None]] = []

    def renew_later(self, renew: Callable[[], None]) -> None:
        self._renewals.append(renew)

    def caught_up(self) -> None:
        """All that was received has been taken."""
        self.is_behind = False
        if self._renewals:
            renewals, self._renewals = self._renewals, []
            for renew in renewals:
                renew()

    def mark(self) -> None:
        """There is something to write."""
        if not self._is_marked:
            self._is_marked = True
            self._outputs.add(self)

    def flush(self) -> None:
        self._is_marked = False
        self._write()

    def flush_all(self) -> None:
        """Write now, from where no turn's end will do it."""
        self._outputs.flush()
