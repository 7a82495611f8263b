"""azure-servicebus in a hurry, for tests.

To open a link takes the SDK half a second, and to close one up to a second, whatever
it is connected to: it reads one frame at a time and pauses for 50 ms after each, and at
the end it waits for a thread that wakes up once in a second. With `hurried_sdk` these
pauses are short. What the SDK does is the same.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from twinbus.sdk_internals.pauses import shortened_pauses


@contextmanager
def hurried_sdk() -> Iterator[None]:
    """Of the whole process, for blocking and asynchronous clients."""
    with shortened_pauses():
        yield
