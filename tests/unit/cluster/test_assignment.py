"""Which broker should own which store, in single cases. What is true of all of them is
in `tests/property/test_cluster_assignment.py`."""

from twinbus.cluster.assignment import Candidate, assign, decide, is_final

A, B, C = (letter * 16 for letter in (b"a", b"b", b"c"))
STORES = [bytes([number]) * 16 for number in range(1, 7)]


def broker(uuid: bytes, *owned: bytes, reach: list[bytes] | None = None) -> Candidate:
    return Candidate(
        broker_uuid=uuid,
        owned=frozenset(owned),
        reach=frozenset(STORES if reach is None else reach),
    )


def test_first_broker_takes_everything() -> None:
    decision = decide(A, STORES, [broker(A)])
    assert decision.take == set(STORES)
    assert not decision.give_back


def test_free_store_goes_to_the_broker_with_the_fewest() -> None:
    brokers = [broker(A, *STORES[:2]), broker(B, *STORES[2:3])]
    assert decide(B, STORES[:4], brokers).take == {STORES[3]}
    assert not decide(A, STORES[:4], brokers).take


def test_broker_that_joins_gets_its_share() -> None:
    brokers = [broker(A, *STORES[:3]), broker(B, *STORES[3:]), broker(C)]
    given = [decide(one, STORES, brokers).give_back for one in (A, B)]
    assert [len(one) for one in given] == [1, 1]
    assert not decide(C, STORES, brokers).take, "not before they are given back"


def test_difference_of_one_moves_nothing() -> None:
    brokers = [broker(A, *STORES[:2]), broker(B, STORES[2]), broker(C, STORES[3])]
    for one in (A, B, C):
        decision = decide(one, STORES[:4], brokers)
        assert not decision.take and not decision.give_back


def test_store_that_only_one_can_reach_is_owned_by_that_one() -> None:
    brokers = [broker(A, reach=STORES[:1]), broker(B)]
    assert assign(STORES[:2], brokers) == {STORES[0]: A, STORES[1]: B}


def test_store_that_others_cannot_reach_stays() -> None:
    brokers = [broker(A, *STORES), broker(B, reach=STORES[:1])]
    assert decide(A, STORES, brokers).give_back == {STORES[0]}


def test_store_that_nobody_can_reach_has_no_owner() -> None:
    brokers = [broker(A, reach=STORES[1:])]
    assert STORES[0] not in assign(STORES, brokers)


def test_store_that_is_not_known_is_left_alone() -> None:
    brokers = [broker(A, *STORES), broker(B)]
    decision = decide(A, STORES[:2], brokers)
    assert decision.give_back <= set(STORES[:2])


def test_shares_are_final_when_nothing_is_to_be_taken_or_given_back() -> None:
    assert is_final(STORES[:3], [broker(A, *STORES[:2]), broker(B, STORES[2])])
    assert not is_final(STORES[:4], [broker(A, *STORES[:2]), broker(B, STORES[2])])
    assert not is_final(STORES[:3], [broker(A, *STORES[:3]), broker(B)])


def test_store_that_nobody_reaches_does_not_keep_shares_from_being_final() -> None:
    assert is_final(STORES[:2], [broker(A, STORES[0], reach=STORES[:1])])
