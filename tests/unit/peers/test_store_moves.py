"""Stores that another broker serves than before, and those that are back."""

from twinbus.broker.home import Home
from twinbus.errors import DetachForced
from twinbus.peers.relay import store_moved
from twinbus.peers.store_moves import StoreMoves


class Places:
    """Where two stores are: here, at an address, or nowhere."""

    def __init__(self) -> None:
        self.first, self.second = Home(), Home()
        self.elsewhere: dict[Home, str] = {}
        self._moves = StoreMoves(self.elsewhere.get)

    def put(self, home: Home, place: str | None) -> None:
        home.is_serving = place == "here"
        self.elsewhere.pop(home, None)
        if place not in (None, "here"):
            self.elsewhere[home] = str(place)

    def look(self) -> tuple[set[Home], set[Home], set[Home]]:
        return self._moves.look([self.first, self.second])


def test_store_that_stays_where_it_is_is_no_news() -> None:
    places = Places()
    places.put(places.second, "b:1")
    assert places.look() == (set(), set(), set())
    assert places.look() == (set(), set(), set())


def test_store_that_another_broker_serves_has_moved() -> None:
    places = Places()
    places.look()
    places.put(places.first, "b:1")
    assert places.look() == ({places.first}, set(), set())
    places.put(places.first, "here")
    assert places.look() == ({places.first}, set(), set())


def test_store_that_is_back_at_its_place_has_returned() -> None:
    places = Places()
    places.look()
    places.put(places.first, None)
    assert places.look() == (set(), set(), set())
    places.put(places.first, "here")
    assert places.look() == (set(), {places.first}, set())


def test_store_that_was_away_and_is_elsewhere_has_moved() -> None:
    places = Places()
    places.look()
    places.put(places.first, None)
    places.look()
    places.put(places.first, "b:1")
    assert places.look() == ({places.first}, set(), set())


def test_links_to_a_store_that_has_moved_are_told_to_attach_again() -> None:
    error = store_moved("orders")
    assert isinstance(error, DetachForced) and error.retryable
    assert "'orders' is served by another broker" in error.text
