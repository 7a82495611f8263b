"""What one attacker has done, so that one that does nothing is found out."""

from dataclasses import dataclass, field

_SHOWN = 60


@dataclass(slots=True)
class Tally:
    """Counts of one attack."""

    # Times that it did what it is called by.
    bite_count: int = 0
    # Times that the bus ended its connection, refused or did not answer it.
    refused_count: int = 0
    # How it learned of that, and how often so.
    refusals: dict[str, int] = field(default_factory=dict)

    def refused(self, trouble: BaseException) -> None:
        if isinstance(trouble, ConnectionRefusedError):
            return  # nobody listens: the bus was told to stop
        self.refused_count += 1
        text = f"{trouble!r}"[:_SHOWN]
        self.refusals[text] = self.refusals.get(text, 0) + 1
