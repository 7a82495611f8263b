"""Whether the stores of a process are shared with other brokers."""

from enum import Enum


class Sharing(Enum):
    """How a process has its stores."""

    # No other broker has them.
    ALONE = "alone"
    # They will be shared, and are made ready for that by this process alone.
    PREPARING = "preparing"
    # Each is owned by one of several brokers, which may change.
    SHARED = "shared"
