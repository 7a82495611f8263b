"""What became of every message, by its message id: once, twice, or never.

Messages are numbered by their sender, so what was seen is one bit each, and memory does
not grow with what waits. A message that comes again because nobody confirmed its
completion (the bus was killed, or the lock ran out) is the same message: same id, same
sequence number, and not completed. Anything else that comes again is visible twice.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

_SAMPLE_COUNT = 20


def message_id(sender: int, number: int) -> str:
    return f"{sender}-{number}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The audit of one run."""

    accepted: int
    once: int
    # Seen as two messages.
    twice: int
    # Accepted and not seen.
    never: int
    # Seen and not sent by anybody.
    unknown: int
    # Delivered again before they were completed; no fault of anybody.
    redelivered: int
    # Some ids of what went wrong.
    samples: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not (self.twice or self.never or self.unknown)


class Seen:
    """One bit for each message of a sender."""

    def __init__(self) -> None:
        self._bits = bytearray()
        self.count = 0

    def add(self, number: int) -> bool:
        """Whether it is new."""
        place, bit = number >> 3, 1 << (number & 7)
        if place >= len(self._bits):
            self._bits.extend(bytes(place + 1 - len(self._bits)))
        if self._bits[place] & bit:
            return False
        self._bits[place] |= bit
        self.count += 1
        return True

    def __contains__(self, number: int) -> bool:
        place = number >> 3
        return place < len(self._bits) and bool(self._bits[place] & 1 << (number & 7))

    def beyond(self, end: int) -> int:
        """How many are at this number or above."""
        return sum(number in self for number in range(end, len(self._bits) * 8))


class Audit:
    """Told of every delivery and every completion."""

    def __init__(self) -> None:
        self._seen: dict[int, Seen] = {}
        # Received and not known to be completed: message id -> sequence number.
        self._open: dict[str, int] = {}
        self._unknown = 0
        self._twice = 0
        self._redelivered = 0
        self._samples: list[str] = []

    @property
    def once(self) -> int:
        return sum(seen.count for seen in self._seen.values())

    def received(self, id: str, sequence_number: int) -> None:
        sender, _, number = id.partition("-")
        if not (sender.isdecimal() and number.isdecimal()):
            self._unknown += 1
            self._note(f"{id}: unknown")
        elif self._seen.setdefault(int(sender), Seen()).add(int(number)):
            self._open[id] = sequence_number
        elif self._open.get(id) == sequence_number:
            self._redelivered += 1
        else:
            self._twice += 1
            self._note(f"{id}: twice, now as {sequence_number}")

    def completed(self, ids: Iterable[str]) -> None:
        """The bus has confirmed it: these must never come again."""
        for id in ids:
            self._open.pop(id, None)

    def _note(self, text: str) -> None:
        if len(self._samples) < _SAMPLE_COUNT:
            self._samples.append(text)

    def verdict(
        self, sent: dict[int, int], failed: dict[int, list[tuple[int, int]]]
    ) -> Verdict:
        """`sent`: how many messages each sender numbered; `failed`: ranges, ends
        included, of those it was told are not sent. These may have arrived or not."""
        never, accepted = 0, 0
        unknown = self._unknown
        for sender, count in sent.items():
            seen = self._seen.get(sender, Seen())
            excused = _numbers(failed.get(sender, []))
            accepted += count - len(excused)
            unknown += seen.beyond(count)
            for number in range(count):
                if number not in seen and number not in excused:
                    never += 1
                    self._note(f"{message_id(sender, number)}: never")
        strangers = set(self._seen).difference(sent)
        unknown += sum(self._seen[sender].count for sender in strangers)
        return Verdict(
            accepted=accepted,
            once=self.once,
            twice=self._twice,
            never=never,
            unknown=unknown,
            redelivered=self._redelivered,
            samples=self._samples,
        )


def _numbers(ranges: list[tuple[int, int]]) -> set[int]:
    return {number for first, last in ranges for number in range(first, last + 1)}
