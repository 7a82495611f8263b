"""Fragments as those see them who send on to them: here, away, or at another broker."""

import pytest

from twinbus.broker.fragment import Fragment
from twinbus.broker.fragment_settings import FragmentSettings
from twinbus.broker.home import Home
from twinbus.errors import FragmentUnavailable, QuotaExceeded
from twinbus.fragments.routing import Routing

from .test_routing import GENERATION, Fragments, sent


class Spread(Fragments):
    """Some of four fragments were never here."""

    def __init__(self, *, is_shared: bool, here: int = 0) -> None:
        super().__init__(max_size_bytes=10)
        for index, home in enumerate(self.homes):
            home.is_shared = is_shared
            home.store_uuid = bytes([index]) * 16
            if index >= here:
                home.is_serving = False
                self.known[index] = None
        self.routing = Routing("orders", 4, self)

    def may_be_elsewhere(self, index: int) -> bool:
        return self.homes[index].is_shared

    def home_of(self, index: int) -> Home:
        return self.homes[index]

    def generation(self) -> bytes:
        return GENERATION

    def main_settings(self) -> FragmentSettings:
        return FragmentSettings(path="orders")


def test_fragment_of_a_store_that_was_never_here_has_an_address() -> None:
    destination = Spread(is_shared=True).routing.destination_at(2)
    assert destination.fragment is None
    assert destination.address().store_uuid == bytes([2]) * 16
    assert destination.address().text.endswith("/2")
    assert destination.settings().path == "orders"


def test_without_other_brokers_it_is_unavailable() -> None:
    with pytest.raises(FragmentUnavailable):
        Spread(is_shared=False).routing.destination_at(2)


def test_size_of_a_fragment_elsewhere_is_not_known_here() -> None:
    fragments = Spread(is_shared=True, here=1)
    with pytest.raises(QuotaExceeded):
        fragments.routing.destination_at(0).check_quota(11)
    fragments.routing.destination_at(1).check_quota(11)
    fragments.homes[0].is_serving = False
    fragments.routing.destination_at(0).check_quota(11)


def test_message_without_a_key_stays_here_if_it_can() -> None:
    routing = Spread(is_shared=True, here=1).routing
    assert {routing.destination(sent()).index for _ in range(8)} == {0}
    routing = Spread(is_shared=True).routing
    assert {routing.destination(sent()).index for _ in range(8)} == {0, 1, 2, 3}


def test_destination_learns_of_a_store_that_came_here() -> None:
    fragments = Spread(is_shared=True)
    assert fragments.routing.destination_at(1).fragment is None
    table_of: Fragment | None = Fragments().known[1]
    fragments.known[1] = table_of
    assert fragments.routing.destination_at(1).fragment is table_of
