"""The times that the clock of a world has shown, and the order of events.

A clock may jump back: what was due at the highest time that it ever showed may have
happened.
"""


class History:
    """Numbers the events, and knows the time of each."""

    def __init__(self) -> None:
        self.now = 0
        # The number of the current event.
        self.event = 0
        # First event and highest time of each period without a jump back.
        self._stretches: list[list[int]] = [[0, 0]]

    def tell(self, now: int) -> None:
        """An event happens at this time."""
        self.event += 1
        if now < self.now:
            self._stretches.append([self.event, now])
        self.now = now
        self._stretches[-1][1] = now

    def highest_since(self, event: int) -> int:
        """The latest time that the clock has shown since an event."""
        starts = [start for start, _ in self._stretches[1:]] + [self.event + 1]
        return max(
            highest
            for (_, highest), end in zip(self._stretches, starts, strict=True)
            if end > event
        )
