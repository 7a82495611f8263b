"""The auditor of the drills: compares what clients were told with what they got.

It shares no code with the bus. A message has a name, which is its message id. An
attempt is one call that sends it. A copy is what an entity has stored, known by its
sequence number. The rules:

- An attempt that was acknowledged has a copy in every queue or subscription.
- It has one copy only. One that was not acknowledged may have a copy, or none.
- With duplicate detection a name has one copy, however often it was attempted.
- A copy whose settlement was confirmed is not locked for anybody again.
- A session's copies are seen for the first time in the order of their numbers.
"""

from collections import defaultdict
from dataclasses import dataclass, field


@dataclass(slots=True)
class Attempt:
    """One call that sends a message."""

    round_number: int
    is_acknowledged: bool = False


@dataclass(slots=True)
class SentBook:
    """What was sent to one queue or topic, by name and number of the attempt."""

    finds_duplicates: bool = False
    attempts: dict[tuple[str, int], Attempt] = field(default_factory=dict)

    def sending(self, name: str, attempt: int, round_number: int) -> None:
        assert (name, attempt) not in self.attempts, f"{name} is attempted twice"
        self.attempts[name, attempt] = Attempt(round_number)

    def acknowledged(self, name: str, attempt: int) -> None:
        self.attempts[name, attempt].is_acknowledged = True

    def acknowledged_count(self) -> int:
        return sum(one.is_acknowledged for one in self.attempts.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A message as a receiver got it; instants are epoch milliseconds."""

    name: str
    attempt: int
    number: int
    session_id: str
    locked_at: int


@dataclass(slots=True)
class Copy:
    """What one sequence number stands for."""

    name: str
    attempt: int
    # When its settlement was confirmed; 0: it was not.
    settled_at: int = 0


@dataclass(slots=True)
class ReceivedBook:
    """What was got from one queue or subscription."""

    path: str
    copies: dict[int, Copy] = field(default_factory=dict)
    # What is wrong whatever was sent.
    broken: list[str] = field(default_factory=list)
    # The highest number seen, by session.
    _highest: dict[str, int] = field(default_factory=dict)

    def seen(self, message: Seen) -> None:
        number = message.number
        copy = self.copies.get(number)
        if copy is None:
            self.copies[number] = Copy(message.name, message.attempt)
            self._check_order(message)
            return
        if (copy.name, copy.attempt) != (message.name, message.attempt):
            self.broken.append(f"{self.path}: {number} was {copy}, and is {message}")
        if 0 < copy.settled_at < message.locked_at:
            self.broken.append(f"{self.path}: {message} was settled before: {copy}")

    def settled(self, number: int, at: int) -> None:
        """Its settlement was confirmed."""
        self.copies[number].settled_at = at

    def _check_order(self, message: Seen) -> None:
        if not message.session_id:
            return
        highest = self._highest.get(message.session_id, 0)
        if message.number < highest:
            self.broken.append(f"{self.path}: {message} came after number {highest}")
        self._highest[message.session_id] = max(highest, message.number)


@dataclass(slots=True)
class Audit:
    """What is wrong with the books; empty lists if nothing is."""

    lost: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    # Copies of attempts that were not acknowledged: allowed.
    unacknowledged_copies: int = 0

    def compare(self, sent: SentBook, received: ReceivedBook) -> None:
        """One queue, or one subscription with its topic."""
        self.broken += received.broken
        copies: dict[tuple[str, int], int] = defaultdict(int)
        names: dict[str, int] = defaultdict(int)
        for copy in received.copies.values():
            copies[copy.name, copy.attempt] += 1
            names[copy.name] += 1
        for key in copies.keys() - sent.attempts.keys():
            self.broken.append(f"{received.path}: {key} was never sent")
        for key, attempt in sent.attempts.items():
            name = key[0]
            # A duplicate is acknowledged, too: an earlier attempt has the copy.
            found = names[name] if sent.finds_duplicates else copies[key]
            if attempt.is_acknowledged and found == 0:
                self.lost.append(f"{received.path}: {key} of {attempt}")
            if copies[key] > 1 or (found > 1 and attempt.is_acknowledged):
                self.twice.append(f"{received.path}: {key} of {attempt}")
            if not attempt.is_acknowledged:
                self.unacknowledged_copies += copies[key]

    def is_clean(self) -> bool:
        return not (self.lost or self.twice or self.broken)
