"""What one attacker has done, so that one that does nothing is found out."""

from dataclasses import dataclass


@dataclass(slots=True)
class Tally:
    """Counts of one attack."""

    # Times that it did what it is called by.
    bite_count: int = 0
    # Times that the bus ended its connection, refused or did not answer it.
    refused_count: int = 0
    # How it learned of that, the last time.
    last_refusal: str = ""

    def refused(self, trouble: BaseException) -> None:
        if isinstance(trouble, ConnectionRefusedError):
            return  # nobody listens: the bus was told to stop
        self.refused_count += 1
        self.last_refusal = f"{trouble!r}"[:200]
