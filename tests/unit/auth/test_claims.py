"""Implied claims, expiry of grants, and secrets that are never shown."""

import pytest

from twinbus.auth.claims import AuthorizationRule, Claim, Grant, require
from twinbus.errors import UnauthorizedAccess


def test_claims_are_read_by_their_service_bus_names() -> None:
    assert Claim.named("Send", "Listen") == Claim.SEND | Claim.LISTEN
    assert Claim.named() == Claim.NONE


def test_unknown_claim_is_refused() -> None:
    with pytest.raises(KeyError):
        Claim.named("Own")


def test_manage_implies_send_and_listen() -> None:
    grant = Grant(path="", claims=Claim.MANAGE)
    assert grant.allows(Claim.SEND, "q", 0)
    assert grant.allows(Claim.LISTEN | Claim.MANAGE, "q", 0)


def test_send_and_listen_together_are_not_manage() -> None:
    grant = Grant(path="", claims=Claim.SEND | Claim.LISTEN)
    assert not grant.allows(Claim.MANAGE, "q", 0)


def test_grant_ends_at_the_instant_of_its_expiry() -> None:
    grant = Grant(path="q", claims=Claim.SEND, expires_at=1000)
    assert grant.allows(Claim.SEND, "q", 999)
    assert not grant.allows(Claim.SEND, "q", 1000)
    assert grant.is_expired(1000)


def test_grant_without_expiry_lasts() -> None:
    assert not Grant(path="q", claims=Claim.SEND).is_expired(2**62)


def test_require_passes_if_any_grant_allows() -> None:
    grants = [
        Grant(path="other", claims=Claim.SEND),
        Grant(path="q", claims=Claim.SEND),
    ]
    require(grants, Claim.SEND, "q/$deadletterqueue", 0)


def test_require_names_the_missing_claim_and_the_entity() -> None:
    grants = [Grant(path="q", claims=Claim.LISTEN)]
    with pytest.raises(UnauthorizedAccess) as refusal:
        require(grants, Claim.SEND, "q", 0)
    assert "'Send' claim(s) are required" in refusal.value.text
    assert refusal.value.entity_path == "q"


def test_rule_knows_both_of_its_keys_and_no_empty_one() -> None:
    rule = AuthorizationRule(
        key_name="root", primary_key="one", secondary_key="two", claims=Claim.SEND
    )
    assert rule.has_key("one")
    assert rule.has_key("two")
    assert not rule.has_key("three")
    single = AuthorizationRule(key_name="root", primary_key="one", claims=Claim.SEND)
    assert not single.has_key("")


def test_keys_are_not_in_the_representation() -> None:
    rule = AuthorizationRule(
        key_name="root", primary_key="hush", secondary_key="quiet", claims=Claim.SEND
    )
    assert "hush" not in repr(rule)
    assert "quiet" not in repr(rule)
