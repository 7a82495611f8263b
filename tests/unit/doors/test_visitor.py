"""A peer that shows wrong keys is held up and logged, without what it has shown."""

import logging

import pytest

from twinbus.auth.claims import AuthorizationRule, Claim
from twinbus.auth.policy import Policy
from twinbus.doors.visitor import Visitor, Visits
from twinbus.errors import ServerBusy
from twinbus.testing.clock import ManualClock

POLICY = Policy(
    [AuthorizationRule(key_name="root", primary_key="right", claims=Claim.MANAGE)]
)


@pytest.fixture
def visits() -> Visits:
    return Visits(ManualClock(), 2)


def fail(visitor: Visitor, name: str = "root", times: int = 2) -> None:
    for _ in range(times):
        visitor.failed(name, POLICY)


def test_held_up_on_every_connection_of_the_address(visits: Visits) -> None:
    fail(Visitor(visits, ("192.0.2.1", 1)))
    with pytest.raises(ServerBusy, match="try again in 1 seconds"):
        Visitor(visits, ("192.0.2.1", 2)).check("root")
    Visitor(visits, ("192.0.2.2", 1)).check("root")


def test_all_addresses_of_a_subscriber_are_one(visits: Visits) -> None:
    fail(Visitor(visits, ("2001:db8:1:2::a", 1, 0, 0)))
    assert Visitor(visits, ("2001:db8:1:2:ffff::b", 1, 0, 0)).held_ms("root")
    assert not Visitor(visits, ("2001:db8:1:3::a", 1, 0, 0)).held_ms("root")


def test_mapped_address_is_the_address(visits: Visits) -> None:
    fail(Visitor(visits, ("::ffff:192.0.2.1", 1, 0, 0)))
    assert Visitor(visits, ("192.0.2.1", 9)).held_ms("root")


def test_who_has_the_key_renews_in_spite_of_a_neighbour(visits: Visits) -> None:
    client = Visitor(visits, ("192.0.2.1", 1))
    client.proved("root")
    fail(Visitor(visits, ("192.0.2.1", 2)), times=9)
    client.check("root")
    # With the next wrong one it is a guesser as well.
    client.failed("root", POLICY)
    with pytest.raises(ServerBusy):
        client.check("root")


def test_log_names_rules_that_exist_and_nothing_else(
    visits: Visits, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    fail(Visitor(visits, ("192.0.2.1", 7)), "root", times=1)
    visits.clock.advance(2_000)  # type: ignore[attr-defined]
    fail(Visitor(visits, ("192.0.2.1", 7)), "a key in the wrong place", times=3)
    first, second = caplog.messages
    assert "192.0.2.1:7" in first
    assert "the rule 'root'" in first
    assert "a rule that does not exist" in second
    assert "wrong place" not in second


def test_peer_without_counts_is_never_held_up() -> None:
    visitor = Visitor()
    fail(visitor, times=1_000)
    visitor.check("root")
    assert visitor.name == "?"
