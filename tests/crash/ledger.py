"""The auditor: compares what clients know of every message with what the bus has.

It shares no code with the bus. For each message it keeps the set of places where it may
be: a request adds a place, its confirmation leaves only that one, and a sighting
excludes the others. It is an error if a message is found in an excluded place, in two
places, or nowhere although it must exist.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto


class BrokenPromise(Exception):
    """The bus did what it must not do; the text says what, and to which messages."""


class Place(Enum):
    """Where a message is, or why it is nowhere."""

    NEVER_ARRIVED = auto()
    ACTIVE = auto()
    DEFERRED = auto()
    SCHEDULED = auto()
    DEAD_LETTERED = auto()
    SETTLED = auto()


NOWHERE = {Place.NEVER_ARRIVED, Place.SETTLED}


@dataclass(slots=True)
class Story:
    """What is known of one message."""

    # Sender and batch, for the promises about them.
    sender: str
    batch: int | None
    may_be: set[Place]
    # Deliveries that ended in an abandon: confirmed ones, and asked for.
    abandoned_count: int = 0
    abandon_asked_count: int = 0
    # The sequence number under which it was last seen, while it is active.
    number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A message as the bus shows it."""

    name: str
    place: Place
    number: int
    delivery_count: int


@dataclass(slots=True, repr=False)
class Ledger:
    """The books of one queue and its dead-letter queue."""

    stories: dict[str, Story] = field(default_factory=dict)
    # What clients noticed by themselves, before any audit.
    broken: list[str] = field(default_factory=list)
    highest_number: int = 0
    _batch_count: int = 0

    # --- what clients report --------------------------------------------------

    def sending(
        self,
        names: Iterable[str],
        sender: str,
        to: Place = Place.ACTIVE,
        *,
        is_batch: bool = False,
    ) -> None:
        """These are about to be sent; a batch arrives whole or not at all."""
        self._batch_count += 1
        batch = self._batch_count if is_batch else None
        for name in names:
            assert name not in self.stories, f"{name} is sent twice"
            self.stories[name] = Story(sender, batch, {Place.NEVER_ARRIVED, to})

    def accepted(self, names: Iterable[str]) -> None:
        for name in names:
            self.stories[name].may_be.discard(Place.NEVER_ARRIVED)

    def refused(self, names: Iterable[str]) -> None:
        """The bus said no: it must never turn up."""
        for name in names:
            self.stories[name].may_be = {Place.NEVER_ARRIVED}

    def asking(self, name: str, place: Place) -> None:
        self.stories[name].may_be.add(place)

    def confirmed(self, name: str, place: Place) -> None:
        self.stories[name].may_be = {place}

    def abandoning(self, name: str) -> None:
        self.stories[name].abandon_asked_count += 1

    def abandoned(self, name: str) -> None:
        self.stories[name].abandoned_count += 1

    def seen(self, found: Found) -> None:
        """A client was shown a message."""
        story = self.stories.get(found.name)
        if story is None:
            self.broken.append(f"{found.name} was never sent")
            return
        if found.place not in story.may_be:
            self.broken.append(f"{found} was shown, but must be in {story.may_be}")
        self._check_delivery_count(found, story)
        self._check_number(found, story)
        story.may_be = {found.place}

    def _check_delivery_count(self, found: Found, story: Story) -> None:
        low, high = story.abandoned_count, story.abandon_asked_count
        if not low <= found.delivery_count <= high:
            self.broken.append(f"{found} was abandoned {low} to {high} times")

    def _check_number(self, found: Found, story: Story) -> None:
        """A message keeps its number; only its dead letter has another."""
        if found.place is Place.DEAD_LETTERED:
            return
        if story.number not in (0, found.number):
            self.broken.append(f"{found} had the number {story.number} before")
        story.number = found.number
        self.highest_number = max(self.highest_number, found.number)

    # --- judging --------------------------------------------------------------

    def audit(self, found: list[Found], *, lost_in_hand_over: int = 0) -> None:
        """Everything the bus has, nobody else being at work. Raises BrokenPromise.

        `lost_in_hand_over`: how many messages may have been on their way to
        receivers that let the bus delete them.
        """
        for name, count in Counter(item.name for item in found).items():
            if count > 1:
                self.broken.append(f"{name} is there {count} times")
        names = {item.name for item in found}
        missing = [name for name in self.stories if name not in names]
        lost = [name for name in missing if not self.stories[name].may_be & NOWHERE]
        if len(lost) > lost_in_hand_over:
            self.broken.append(f"{len(lost)} are lost, such as {lost[:5]}")
        self._check_batches(names)
        for item in found:
            self.seen(item)
        for name in missing:
            story = self.stories[name]
            story.may_be = (story.may_be & NOWHERE) or {Place.SETTLED}
        self._check_order(found)
        if self.broken:
            raise BrokenPromise("\n".join(self.broken))

    def _check_batches(self, present: set[str]) -> None:
        """A batch of which something arrived has arrived."""
        arrived: set[int] = set()
        absent: set[int] = set()
        for name, story in self.stories.items():
            if story.batch is None:
                continue
            if name in present or Place.NEVER_ARRIVED not in story.may_be:
                arrived.add(story.batch)
            elif story.may_be & NOWHERE == {Place.NEVER_ARRIVED}:
                absent.add(story.batch)
        if arrived & absent:
            self.broken.append(f"batches arrived in part: {arrived & absent}")

    def _check_order(self, found: list[Found]) -> None:
        """One sender's messages have rising numbers, in the order of sending."""
        by_name = {item.name: item for item in found}
        last: dict[str, Found] = {}
        for name, story in self.stories.items():
            item = by_name.get(name)
            if item is None or item.place is Place.DEAD_LETTERED:
                continue
            before = last.get(story.sender)
            if before is not None and before.number >= item.number:
                self.broken.append(f"{item} was sent after {before}")
            last[story.sender] = item

    def unanswered(self) -> set[str]:
        """Messages of which nobody knows whether they arrived."""
        return {
            name
            for name, story in self.stories.items()
            if Place.NEVER_ARRIVED in story.may_be and len(story.may_be) > 1
        }

    def settled_count(self) -> int:
        """Messages that must not come back."""
        return sum(story.may_be == {Place.SETTLED} for story in self.stories.values())
