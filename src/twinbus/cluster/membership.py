"""Which brokers are alive, as one of them sees it.

A broker is alive while its beat rises. Whoever looks goes by its own clock, which must
not go back, and counts only the time in which it looked: if it was stopped itself, or
all were, the others get their term when it wakes up. A broker that is seen for the
first time is alive.
"""

from collections.abc import Iterable, Mapping
from typing import Final, final

from twinbus.cluster.terms import BEAT_MS, TERM_MS

_LONGEST_GAP_MS: Final = 2 * BEAT_MS
"""More time than this between two looks was not spent looking."""


@final
class Membership:
    """The brokers that one observer knows."""

    def __init__(self, term_ms: int = TERM_MS) -> None:
        self._term_ms: int = term_ms
        # By uuid.
        self._beats: dict[bytes, int] = {}
        # For how long the beat did not rise.
        self._silent_ms: dict[bytes, int] = {}
        self._looked_at: int | None = None

    def observe(self, beats: Mapping[bytes, int], at: int) -> None:
        """What the catalog says now; brokers that are not in it are forgotten."""
        gap_ms = 0 if self._looked_at is None else at - self._looked_at
        self._looked_at = at
        self._silent_ms = {
            uuid: self._silence(uuid, beat, min(gap_ms, _LONGEST_GAP_MS))
            for uuid, beat in beats.items()
        }
        self._beats = dict(beats)

    def is_news(self, beats: Mapping[bytes, int], me: bytes) -> bool:
        """Another broker has announced itself since the last look."""
        return any(
            uuid != me and self._beats.get(uuid) != beat for uuid, beat in beats.items()
        )

    def _silence(self, uuid: bytes, beat: int, gap_ms: int) -> int:
        if self._beats.get(uuid) != beat:
            return 0
        return self._silent_ms[uuid] + gap_ms

    def lose(self, gone: Iterable[bytes]) -> None:
        """Their processes have ended, whatever their beats were."""
        for uuid in gone:
            if uuid in self._silent_ms:
                self._silent_ms[uuid] = max(self._silent_ms[uuid], self._term_ms)

    def alive(self) -> set[bytes]:
        return {uuid for uuid, ms in self._silent_ms.items() if ms < self._term_ms}

    def silent(self) -> set[bytes]:
        """Announced, and not heard of for a term."""
        return self._silent_ms.keys() - self.alive()

    def silent_ms(self, broker_uuid: bytes) -> int:
        """0 if it is not known."""
        return self._silent_ms.get(broker_uuid, 0)
