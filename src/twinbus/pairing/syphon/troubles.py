"""What keeps a syphon from its work, as a whole or at one backlog queue.

It waits and tries again by itself; but somebody has to be able to see that it does, and
why: in the status, in events and in the metrics that are made of them.
"""

from typing import Final, final

from twinbus.pairing.events import EventKind, PairEvent
from twinbus.pairing.reporting import Reporter

WHOLE: Final = ""
"""Where trouble is that keeps all of it from running."""


@final
class Troubles:
    """The troubles of one syphon, by backlog queue. Tells of news only."""

    def __init__(self, report: Reporter) -> None:
        self._report = report
        self._texts: dict[str, str] = {}

    def begin(self, queue: str, text: str) -> None:
        """Nothing is brought back from this queue, or from any."""
        is_news = self._texts.get(queue) != text
        self._texts[queue] = text
        if is_news:
            self._report(PairEvent(kind=EventKind.SYPHON_WAITS, queue=queue, text=text))

    def end(self, queue: str) -> None:
        """It works, for all that is known."""
        if self._texts.pop(queue, None) is not None:
            self._report(PairEvent(kind=EventKind.SYPHON_RUNS, queue=queue))

    def forget(self, queue: str) -> None:
        """The same, if it is told by somebody else."""
        self._texts.pop(queue, None)

    def texts(self) -> tuple[str, ...]:
        """What to tell people, the worst first."""
        return tuple(
            f"backlog queue '{queue}': {text}" if queue else text
            for queue, text in sorted(self._texts.items())
        )
