"""Rights depend on grants, end with them, and are found without scanning all."""

from collections.abc import Iterator

import pytest

from twinbus.auth.claims import AuthorizationRule, Claim, Grant
from twinbus.auth.grants import Grants, Right
from twinbus.auth.policy import Policy
from twinbus.errors import ArgumentError, UnauthorizedAccess
from twinbus.limits import GRANTS_PER_CONNECTION

BOTH = Claim.SEND | Claim.LISTEN
NOBODY = Policy([])
RULES = Policy(
    [
        *(
            AuthorizationRule(key_name=claims.title, primary_key="key", claims=claims)
            for claims in (Claim.SEND, Claim.LISTEN, BOTH, Claim.MANAGE)
        ),
        AuthorizationRule(
            key_name="own", primary_key="first", claims=BOTH, scope="Orders"
        ),
    ]
)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The paths of the grants that were looked at."""
    found: list[str] = []
    allows = Grant.allows

    def count(grant: Grant, claim: Claim, path: str, now: int) -> bool:
        found.append(grant.path)
        return allows(grant, claim, path, now)

    monkeypatch.setattr(Grant, "allows", count)
    yield found


def grant(path: str, claims: Claim = BOTH, expires_at: int | None = 100) -> Grant:
    return Grant(
        path=path,
        claims=claims,
        expires_at=expires_at,
        key_name=claims.title,
        key="key",
    )


def holding(*grants: Grant) -> Grants:
    held = Grants()
    for item in grants:
        assert held.put(item, 0) == []
    held.tick(RULES, 0)
    return held


def hold(grants: Grants, name: str, claim: Claim, *paths: str) -> None:
    grants.hold(name, tuple(grants.require(claim, path, 0) for path in paths))


def holders(lost: list[Right]) -> list[object]:
    return [right.holder for right in lost]


def test_every_scope_above_a_path_gives_the_right() -> None:
    for scope in ("", "a", "a/b", "a/b/$deadletterqueue"):
        grants = holding(grant(scope))
        assert grants.require(Claim.SEND, "A/b/$DeadLetterQueue", 0).rests_on == scope


def test_no_other_path_does() -> None:
    grants = holding(grant("a/b"), grant("c"))
    for path in ("", "a", "a/bc", "b", "a/b ", "cc"):
        assert not grants.allows(Claim.SEND, path, 0)
    with pytest.raises(UnauthorizedAccess, match="'Send' claim"):
        grants.require(Claim.SEND, "a", 0)


def test_wider_grant_is_found_behind_one_that_does_not_do() -> None:
    grants = holding(grant(""), grant("a", Claim.LISTEN), grant("a/b", expires_at=1))
    assert grants.require(Claim.SEND, "a/b", 1).rests_on == ""


def test_right_ends_with_its_grant() -> None:
    grants = holding(grant("a", expires_at=100), grant("b", expires_at=200))
    hold(grants, "on a", Claim.SEND, "a")
    hold(grants, "on b", Claim.SEND, "b")
    assert grants.tick(RULES, 99) == []
    assert holders(grants.tick(RULES, 100)) == ["on a"]
    assert len(grants) == 1
    # It has proved a key, all the same.
    assert grants.tick(RULES, 200)
    assert grants
    assert not Grants()


def test_renewal_moves_the_end() -> None:
    grants = holding(grant("a", expires_at=100))
    hold(grants, "link", Claim.SEND, "a")
    assert grants.put(grant("a", expires_at=200), 50) == []
    assert grants.tick(RULES, 199) == []
    assert holders(grants.tick(RULES, 200)) == ["link"]


def test_replacement_takes_the_claims_that_it_does_not_give() -> None:
    grants = holding(grant("a", BOTH))
    hold(grants, "sender", Claim.SEND, "a")
    hold(grants, "receiver", Claim.LISTEN, "a")
    assert holders(grants.put(grant("a", Claim.SEND), 0)) == ["receiver"]
    grants.let_go("receiver")
    assert holders(grants.tick(RULES, 100)) == ["sender"]


def test_replacement_by_a_rule_of_one_entity_takes_what_is_beyond_it() -> None:
    grants = holding(grant("sales"))
    hold(grants, "inside", Claim.SEND, "sales/$deadletterqueue")
    hold(grants, "beyond", Claim.SEND, "sales/eu")
    narrow = Grant(path="sales", claims=BOTH, entity="sales", expires_at=100)
    assert holders(grants.put(narrow, 0)) == ["beyond"]


def test_manage_gives_what_it_implies() -> None:
    grants = holding(grant("a", Claim.MANAGE))
    hold(grants, "sender", Claim.SEND, "a")
    assert grants.put(grant("a", Claim.SEND), 0) == []


def test_right_moves_to_another_grant_and_ends_with_that() -> None:
    grants = holding(grant("a", expires_at=100), grant("", expires_at=200))
    hold(grants, "link", Claim.SEND, "a")
    assert grants.tick(RULES, 100) == []
    assert holders(grants.tick(RULES, 200)) == ["link"]


def test_holder_of_two_rights_loses_either() -> None:
    for ending in ("a", "b"):
        grants = holding(grant("a"), grant("b"))
        hold(grants, "via", Claim.SEND, "a", "b")
        assert holders(grants.put(grant(ending, Claim.LISTEN), 0)) == ["via"]


def test_right_that_was_let_go_is_not_lost() -> None:
    grants = holding(grant("a"))
    hold(grants, "link", Claim.SEND, "a")
    grants.let_go("link")
    grants.let_go("link")
    assert grants.tick(RULES, 100) == []


def test_heir_loses_what_was_passed_on() -> None:
    grants = holding(grant("a"))
    hold(grants, "waiting", Claim.LISTEN, "a")
    grants.pass_on("waiting", "receiving")
    grants.let_go("waiting")
    assert holders(grants.tick(RULES, 100)) == ["receiving"]


def test_grants_end_with_their_rule() -> None:
    grants = holding(grant("a"))
    hold(grants, "link", Claim.SEND, "a")
    assert holders(grants.tick(NOBODY, 0)) == ["link"]
    assert len(grants) == 0


def test_grants_follow_the_claims_of_their_rule() -> None:
    grants = holding(
        Grant(path="orders", claims=BOTH, entity="Orders", key_name="own", key="first")
    )
    hold(grants, "receiver", Claim.LISTEN, "orders")
    hold(grants, "sender", Claim.SEND, "orders")
    changed = AuthorizationRule(
        key_name="own",
        primary_key="another",
        secondary_key="first",
        claims=Claim.SEND,
        scope="Orders",
    )
    assert holders(grants.tick(Policy([changed]), 0)) == ["receiver"]
    assert grants.allows(Claim.SEND, "orders", 0)


def test_number_of_grants_is_bounded_and_the_ended_do_not_count() -> None:
    grants = holding(*(grant(f"q{number}") for number in range(GRANTS_PER_CONNECTION)))
    with pytest.raises(ArgumentError, match=f"{GRANTS_PER_CONNECTION} audiences"):
        grants.put(grant("one-more"), 0)
    grants.put(grant("q1"), 0)
    grants.tick(RULES, 100)
    grants.put(grant("one-more", expires_at=200), 100)
    assert len(grants) == 1


def test_renewing_all_the_time_keeps_nothing() -> None:
    grants = holding(grant("a", expires_at=10))
    for expires_at in range(1_000):
        grants.put(grant("a", expires_at=2_000 + expires_at), 0)
    assert len(grants._expiries) < 100
    assert grants.tick(RULES, 2_000) == []
    assert grants.allows(Claim.SEND, "a", 2_998)


def test_cost_does_not_grow_with_links_and_grants(looks: list[str]) -> None:
    """480 queues, each with its token and its link, and one token that is stale."""
    count = 480
    grants = Grants()
    for number in range(count):
        grants.put(grant(f"q{number}", expires_at=1_000 + number), 0)
        hold(grants, f"link {number}", Claim.SEND, f"q{number}")
    assert len(looks) == count
    looks.clear()
    assert holders(grants.tick(RULES, 1_000)) == ["link 0"]
    assert looks == []
    for _ in range(100):
        grants.tick(RULES, 1_000)
        grants.put(grant("q1", expires_at=9_000), 1_000)
    assert looks == []
    # Those that lose one grant look for another, and nobody else does.
    grants.put(grant("q2", Claim.LISTEN, expires_at=9_000), 1_000)
    assert looks == ["q2"]


def test_long_path_of_a_stranger_costs_little(looks: list[str]) -> None:
    grants = holding(grant("a"), grant(""))
    assert grants.allows(Claim.SEND, "x/" * 1_000_000, 0)
    assert looks == [""]
