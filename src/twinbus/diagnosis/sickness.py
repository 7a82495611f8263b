"""Something that cannot be mended while the process runs."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sickness:
    """What was found."""

    # One word for the name of a folder.
    kind: str
    # For the log and for people.
    text: str
