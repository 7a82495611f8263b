"""A broker that does not fit to those that run is refused, with what to do."""

from dataclasses import replace

import pytest

from twinbus.cluster.announcement import Announcement
from twinbus.cluster.fitting import (
    is_private_to_machine,
    own_network,
    why_not_together,
)
from twinbus.store.process_identity import this_process

A, B = b"a" * 16, b"b" * 16
PLACES = {A: "/bus/a.sqlite3", B: "/bus/b.sqlite3"}

ME = Announcement(
    broker_uuid=b"m" * 16,
    name="me",
    address="10.0.0.1:7000",
    beat=1,
    process=this_process(),
    formats={},
    configured=frozenset({A, B}),
    namespace="space",
    network="here",
)
OTHER = replace(
    ME, broker_uuid=b"o" * 16, name="other", address="10.0.0.2:7000", network="there"
)


def _reason(me: Announcement, other: Announcement) -> str:
    return why_not_together(me, [other], PLACES) or ""


def test_brokers_of_two_machines_fit() -> None:
    assert why_not_together(ME, [OTHER], PLACES) is None


def test_brokers_of_one_machine_fit_by_loopback() -> None:
    me = replace(ME, address="127.0.0.1:7000")
    other = replace(OTHER, address="127.0.0.1:7001", network="here")
    assert why_not_together(me, [other], PLACES) is None


def test_other_namespace_is_refused() -> None:
    assert _reason(ME, replace(OTHER, namespace="SPACE")) == ""
    text = _reason(ME, replace(OTHER, namespace="site-b"))
    assert "for the namespace 'site-b', and this one is for 'space'" in text


def test_more_and_fewer_stores_are_refused_by_name() -> None:
    fewer = _reason(replace(ME, configured=frozenset({A})), OTHER)
    assert f"its store {B.hex()} is not among the stores here" in fewer
    more = _reason(ME, replace(OTHER, configured=frozenset({B})))
    assert "/bus/a.sqlite3 is not among its stores" in more


def test_same_address_is_refused() -> None:
    assert "same address" in _reason(ME, replace(OTHER, address=ME.address))
    # On two machines a loopback address is not the same; that is refused as well.
    me = replace(ME, address="127.0.0.1:7000")
    text = _reason(me, replace(OTHER, address="127.0.0.1:7000"))
    assert "--peer-host" in text and "same address" not in text


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0", "[::1]", "[::]"])
def test_address_that_others_cannot_reach_is_refused(host: str) -> None:
    text = _reason(replace(ME, address=f"{host}:7000"), OTHER)
    assert f"cannot reach this one at {host}:7000" in text and "--peer-host" in text
    text = _reason(ME, replace(OTHER, address=f"{host}:7000"))
    assert f"its address is {host}:7000" in text


def test_broker_that_tells_nothing_of_this_fits() -> None:
    """One of an older version, on the same machine."""
    older = replace(OTHER, network="", namespace="", configured=frozenset())
    assert why_not_together(replace(ME, address="127.0.0.1:1"), [older], {}) is None


def test_names_and_addresses_of_networks_can_be_reached() -> None:
    for address in ("10.1.2.3:1", "broker-1.internal:1", "[fd00::1]:1"):
        assert not is_private_to_machine(address)


def test_processes_of_one_machine_have_one_network() -> None:
    assert own_network() == own_network() != ""
