"""Listeners are called once per change set, with all items that waited for it."""

from twinbus.broker.changes import ChangeSet
from twinbus.broker.commit_listener import CommitListener, Listeners
from twinbus.broker.home import Home
from twinbus.errors import ServerBusy, ServiceBusError


class Ear(CommitListener):
    def __init__(self, heard: list[object]) -> None:
        super().__init__()
        self.heard = heard

    def committed(self, items: list[int]) -> None:
        self.heard.append((self, items))

    def failed(self, items: list[int], error: ServiceBusError) -> None:
        self.heard.append((self, items, error))


def test_listeners_are_told_in_the_order_of_their_first_note() -> None:
    heard: list[object] = []
    one, two = Ear(heard), Ear(heard)
    home = Home()
    for ear, item in ((one, 1), (two, 2), (one, 3)):
        ear.note(home, item)
    home.listeners.committed()
    assert heard == [(one, [1, 3]), (two, [2])]


def test_notes_of_the_next_change_set_are_kept_apart() -> None:
    heard: list[object] = []
    ear = Ear(heard)
    home = Home()
    ear.note(home, 1)
    first = home.listeners
    home.changes, home.listeners = ChangeSet(home), Listeners()
    ear.note(home, 2)
    ear.note(home, 3)
    second = home.listeners
    error = ServerBusy()
    first.committed()
    second.failed(error)
    assert heard == [(ear, [1]), (ear, [2, 3], error)]


def test_nobody_is_told_of_nothing() -> None:
    Listeners().committed()
    Listeners().failed(ServerBusy())
