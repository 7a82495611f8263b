"""Listeners are told once for each change set, with all that waited for it."""

from twinbus.broker.changes import ChangeSet
from twinbus.errors import ServerBusy, ServiceBusError
from twinbus.links.commit_listener import CommitListener, Listeners


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
    changes, listeners = ChangeSet(), Listeners()
    for ear, item in ((one, 1), (two, 2), (one, 3)):
        ear.note(changes, item, listeners)
    listeners.committed()
    assert heard == [(one, [1, 3]), (two, [2])]


def test_notes_of_the_next_change_set_are_kept_apart() -> None:
    heard: list[object] = []
    ear = Ear(heard)
    first, second = Listeners(), Listeners()
    ear.note(ChangeSet(), 1, first)
    changes = ChangeSet()
    ear.note(changes, 2, second)
    ear.note(changes, 3, second)
    error = ServerBusy()
    first.committed()
    second.failed(error)
    assert heard == [(ear, [1]), (ear, [2, 3], error)]


def test_nobody_is_told_of_nothing() -> None:
    Listeners().committed()
    Listeners().failed(ServerBusy())
