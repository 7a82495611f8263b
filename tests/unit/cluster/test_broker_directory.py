"""Where stores are served."""

from dataclasses import replace

from twinbus.cluster.announcement import OPENING, Announcement
from twinbus.cluster.broker_directory import BrokerDirectory
from twinbus.store.process_identity import this_process

STORE, OTHER = b"s" * 16, b"t" * 16
ME = Announcement(
    broker_uuid=b"a" * 16,
    name="1",
    address="127.0.0.1:1",
    beat=1,
    process=this_process(),
    formats={},
)
PEER = replace(ME, broker_uuid=b"b" * 16, name="2", address="127.0.0.1:2")


def directory(*alive: Announcement) -> BrokerDirectory:
    made = BrokerDirectory(ME.broker_uuid)
    made.learn(alive)
    return made


def test_store_of_a_peer_has_its_address() -> None:
    known = directory(replace(ME, stores={OTHER: 1}), replace(PEER, stores={STORE: 4}))
    assert known.address_of(STORE) == PEER.address
    owner = known.owner_of(STORE)
    assert owner is not None and owner.name == "2"


def test_own_store_has_no_address() -> None:
    known = directory(replace(ME, stores={STORE: 4}), PEER)
    assert known.address_of(STORE) is None


def test_store_that_nobody_has_has_no_address() -> None:
    known = directory(ME, PEER)
    assert known.address_of(STORE) is None
    assert known.owner_of(STORE) is None


def test_store_that_is_being_opened_has_no_address_yet() -> None:
    known = directory(ME, replace(PEER, stores={STORE: OPENING}))
    assert known.address_of(STORE) is None
    assert known.owner_of(STORE) is not None


def test_later_epoch_is_right() -> None:
    third = replace(PEER, broker_uuid=b"c" * 16, address="127.0.0.1:3")
    for order in ((0, 1), (1, 0)):
        both = (replace(PEER, stores={STORE: 4}), replace(third, stores={STORE: 5}))
        known = directory(*(both[i] for i in order))
        assert known.address_of(STORE) == third.address


def test_broker_that_is_gone_is_forgotten() -> None:
    known = directory(replace(PEER, stores={STORE: 4}))
    known.learn([ME])
    assert known.address_of(STORE) is None
    assert known.brokers() == (ME,)


def test_broker_without_an_address_cannot_be_reached() -> None:
    known = directory(replace(PEER, address="", stores={STORE: 4}))
    assert known.address_of(STORE) is None


def test_store_that_no_broker_can_reach_is_not_waited_for() -> None:
    me = replace(ME, stores={STORE: 4}, reach=frozenset({STORE}))
    assert directory(me, PEER).serves_all([STORE, OTHER])
    peer = replace(PEER, reach=frozenset({OTHER}))
    assert not directory(me, peer).serves_all([STORE, OTHER])
    peer = replace(peer, stores={OTHER: OPENING})
    assert not directory(me, peer).serves_all([STORE, OTHER])
    peer = replace(peer, stores={OTHER: 1})
    assert directory(me, peer).serves_all([STORE, OTHER])
