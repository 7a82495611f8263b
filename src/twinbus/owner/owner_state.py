"""What an owner can do for its fragments at present.

    OPENING -> SERVING -> UNAVAILABLE -> SERVING
                       -> LOST -------/
                       -> ELSEWHERE --/

An owner that does not serve refuses everything that concerns its fragments, with an
error that clients take as a reason to try again. It opens its store again and again
until that succeeds. Only where several brokers share stores it waits until it is told
to take the store: until then another broker has it.
"""

from enum import Enum


class OwnerState(Enum):
    """Of the owner of one store."""

    # The store is being opened for the first time.
    OPENING = "opening"
    SERVING = "serving"
    # The store failed, or cannot be reached.
    UNAVAILABLE = "unavailable"
    # Another process has taken the store.
    LOST = "lost"
    # Another broker is to have the store; this one has given it back.
    ELSEWHERE = "elsewhere"
