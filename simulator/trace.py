"""The events of a world, line by line, to read and to compare."""

from hashlib import sha256
from typing import final


@final
class Trace:
    """Lines of text; their digest shows whether two runs were the same."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, now: int, what: str) -> None:
        self.lines.append(f"{now % 100_000_000:>12,} {what}")

    def digest(self) -> str:
        return sha256("\n".join(self.lines).encode()).hexdigest()[:16]
