"""Listeners wait for a commit, and get its outcome in one call for all their items.

A future or closure per message would be too slow on the hot path. So a listener (a
link) notes one plain integer per waiting delivery. The owner of the store keeps the
listener's list once per change set, and calls the listener after the commit.
"""

from abc import abstractmethod
from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from twinbus.broker.changes import ChangeSet
from twinbus.errors import ServiceBusError

if TYPE_CHECKING:
    from twinbus.broker.home import Home


@mypyc_attr(allow_interpreted_subclasses=True)
class CommitListener:
    """Notes deliveries that wait for the open change set."""

    def __init__(self) -> None:
        self._waits_for: ChangeSet | None = None
        self._notes: list[int] = []

    def note(self, home: "Home", item: int) -> None:
        """`item` waits until the open change set of the home is committed."""
        changes = home.changes
        if self._waits_for is not changes:
            self._waits_for = changes
            self._notes = []
            home.listeners.add(self, self._notes)
        self._notes.append(item)

    @abstractmethod
    def committed(self, items: list[int]) -> None:
        """The commit made all of these durable."""

    @abstractmethod
    def failed(self, items: list[int], error: ServiceBusError) -> None:
        """The commit failed: none of these happened."""


class Listeners:
    """The listeners of one change set, in the order of their first note."""

    def __init__(self) -> None:
        self._listeners: list[CommitListener] = []
        self._notes: list[list[int]] = []

    def add(self, listener: CommitListener, notes: list[int]) -> None:
        self._listeners.append(listener)
        self._notes.append(notes)

    def is_empty(self) -> bool:
        return not self._listeners

    def committed(self) -> None:
        for i, listener in enumerate(self._listeners):
            listener.committed(self._notes[i])

    def failed(self, error: ServiceBusError) -> None:
        for i, listener in enumerate(self._listeners):
            listener.failed(self._notes[i], error)
