"""Why a syphon does not work, as a whole or at one backlog queue.

It waits and tries again by itself. The status, the events and the metrics show that it
waits, and why.
"""

from typing import Final, final

from twinbus.pairing.events import EventKind, PairEvent
from twinbus.pairing.reporting import Reporter

WHOLE: Final = ""
"""The key of trouble that keeps the whole syphon from running."""


@final
class Troubles:
    """The troubles of one syphon, by backlog queue. Listeners hear of changes only."""

    def __init__(self, report: Reporter) -> None:
        self._report = report
        self._texts: dict[str, str] = {}

    def begin(self, queue: str, text: str) -> None:
        """Nothing can be restored from this queue; without a queue, from none."""
        is_news = self._texts.get(queue) != text
        self._texts[queue] = text
        if is_news:
            self._report(PairEvent(kind=EventKind.SYPHON_WAITS, queue=queue, text=text))

    def end(self, queue: str) -> None:
        """It works again, as far as we know."""
        if self._texts.pop(queue, None) is not None:
            self._report(PairEvent(kind=EventKind.SYPHON_RUNS, queue=queue))

    def forget(self, queue: str) -> None:
        """Clear trouble without telling listeners: somebody else does that."""
        self._texts.pop(queue, None)

    def texts(self) -> tuple[str, ...]:
        """Texts for people, the worst first."""
        return tuple(
            f"backlog queue '{queue}': {text}" if queue else text
            for queue, text in sorted(self._texts.items())
        )
